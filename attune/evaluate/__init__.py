"""Metrics with signatures, the leak audit, paper tables, reports and figures."""
