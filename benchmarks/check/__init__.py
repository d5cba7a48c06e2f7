"""The regression guard, `make bench-check`: this working tree beside an earlier commit, in one run.

Two brokers run, one of each tree, with the same interpreter and the same measuring code, which is
this tree's; only the package `penstock`, broker and client, is each tree's own. Every load is done
by one and at once by the other, and the other way round next time; the ratio is taken of such a
pair, and the median of the ratios is the verdict. So it does not matter how fast the machine is or
what else runs on it, as long as that lasts longer than a second.
"""
