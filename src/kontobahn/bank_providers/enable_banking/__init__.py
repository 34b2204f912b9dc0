"""Enable Banking: an aggregator that reaches banks in many countries, behind the port."""
