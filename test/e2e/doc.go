// Package e2e tests the whole product through its HTTP listeners: golden scripts
// that an operator can read (testdata/*.txt), played against a node in a bubble of
// virtual time and against the real binary; the matrix of routes, roles and states;
// the client against every documented operation; malformed requests.
//
// It knows what the specification says an answer must be, never how the code
// arrives at it. It has no code outside of its tests.
package e2e
