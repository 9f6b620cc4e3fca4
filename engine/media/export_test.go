package media

// Work returns how many media are parsed at the same time.
func (cl *Cleaner) Work() int { return cl.o.Work }
