"""Words everybody uses: types, entries, errors, limits, the clock and record batches."""
