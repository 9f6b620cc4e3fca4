package gate

// Evict drops from the cache of rows what is over its bound; otherwise the cache
// does so in the background, a little later.
func (g *Gate) Evict() { g.rows.entries.CleanUp() }
