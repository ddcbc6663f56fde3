"""COPY … FROM STDIN: bytes of the three formats to columns."""
