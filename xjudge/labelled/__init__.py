"""One labelled twin per statistics room: checks, counts, computes, names the answer. Exports nothing."""
