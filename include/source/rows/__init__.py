"""From a row's bytes, of the binlog or of a SELECT, to the records of its table's topic."""
