"""The paper's tables as data, and the runs that make them anew."""
