"""Eigensolvers for L^(1/2,γ), and the choice between them."""
