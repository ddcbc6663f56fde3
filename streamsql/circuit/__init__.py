"""What an operator and a circuit are."""
