"""Salt Edge v6, an aggregator: banks of many countries behind one contract, accounts to read and payments."""
