package resp

// Move looks once for connections whose clients are silent, as is done every second.
func (s *Server) Move() { s.each((*conn).move) }
