"""What is kept of each relation: rows, changes of the last versions, watermarks."""
