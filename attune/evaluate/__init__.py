"""Metrics with signatures, the leak audit, the papers' tables, reports and figures."""
