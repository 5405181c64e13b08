"""Laws by which random instances are drawn for the evidence of each claim."""
