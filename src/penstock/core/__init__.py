"""What all layers share: types, entries, errors, limits, the clock and record batches."""
