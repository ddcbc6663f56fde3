"""Sources and formats."""
