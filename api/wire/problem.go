package wire

// Problem is an error as RFC 9457 says it, with a code for machines and a hint
// for people.
type Problem struct {
	Type   string `json:"type" format:"uri-reference" doc:"Names the kind of problem: /docs/api#code."`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code" doc:"The kind of failure: gone, not_found, conflict …"`
	Detail string `json:"detail,omitempty"`
	Hint   string `json:"hint,omitempty" doc:"What to do next."`
}

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"
