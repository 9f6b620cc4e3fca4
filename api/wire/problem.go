package wire

// Problem is an error in the format of RFC 9457, with a code for programs and a
// hint for people.
type Problem struct {
	Type   string `json:"type" format:"uri-reference" doc:"Identifies the kind of problem: /docs/api#code."`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code" doc:"The kind of problem for programs: gone, not_found, conflict …"`
	Detail string `json:"detail,omitempty"`
	Hint   string `json:"hint,omitempty" doc:"What to do next."`
}

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"
