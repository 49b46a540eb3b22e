"""The agent that people talk with."""
