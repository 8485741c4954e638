"""From a binlog's bytes to whole transactions, whose rows are not decoded yet."""
