// Package edge tests a real Varnish with our configuration in front of a node, on the
// real clock. It has no code but tests.
package edge
