package erase

// Over says whether a run found more that looks like an item's than one run may
// erase (L14): then somebody looks before any of it goes. Uploads that were never
// published are no such sign: everybody can leave some behind.
func (r OrphanReport) Over() bool { return r.Orphans-r.Abandoned > r.Cap() }

// Cap is how many a run that looked at so many may erase (I16).
func (r OrphanReport) Cap() int { return capFor(r.Looked) }
