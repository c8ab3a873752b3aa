"""Scenarios that every worker library must pass, run against real brokers on SQLite."""
