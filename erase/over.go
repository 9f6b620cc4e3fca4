package erase

// Over says whether a run found more than one run may erase (L14): then somebody
// looks before anything goes.
func (r OrphanReport) Over() bool { return r.Orphans > r.Cap() }

// Cap is how many a run that looked at so many may erase (I16).
func (r OrphanReport) Cap() int { return capFor(r.Looked) }
