package audit

import "fmt"

// Fault is what is wrong at a place.
type Fault uint8

// The faults.
const (
	Changed  Fault = iota + 1 // the bytes are not those that were written
	Missing                   // something was there and is not
	Moved                     // a record of this chain in the place of another
	Foreign                   // a record of another chain, or nothing of ours at all
	Unlinked                  // it does not follow from the record in front: one of the two is not what was written
	Unlisted                  // a chain that somebody anchored is not in the directory
)

// String is the fault's word.
func (f Fault) String() string {
	switch f {
	case Changed:
		return "changed"
	case Missing:
		return "missing"
	case Moved:
		return "moved"
	case Foreign:
		return "foreign"
	case Unlinked:
		return "unlinked"
	case Unlisted:
		return "unlisted"
	default:
		return fmt.Sprintf("fault(%d)", uint8(f))
	}
}

// Finding is one thing that is wrong.
type Finding struct {
	Ref    // where
	Fault  Fault
	Detail string // what was seen
	By     Ref    // the record of another chain that tells; zero when the chain itself does
}

// String is the finding in a line.
func (f Finding) String() string {
	line := fmt.Sprintf("%s: %s: %s", f.Ref, f.Fault, f.Detail)
	if f.By != (Ref{}) {
		line += " (says " + f.By.String() + ")"
	}
	return line
}

// MaxFindings is how many findings a report keeps; the others are counted.
const MaxFindings = 1000

// Report is what a verification saw.
type Report struct {
	Chains  int // that have a record
	Empty   int // listed before their first record, and nothing came
	Records int // that are whole and in their place
	Anchors int // heads that other chains, or the caller, had kept

	Findings []Finding // the first MaxFindings
	More     int       // findings beyond those

	// Heads are the ends of all chains, by name. Kept elsewhere, they let
	// VerifyAgainst see what this store alone cannot show.
	Heads []Head
}

// Sound says that nothing is wrong.
func (r *Report) Sound() bool { return len(r.Findings) == 0 && r.More == 0 }

// add notes a finding, once for a place and a fault.
func (r *Report) add(f Finding) {
	for _, known := range r.Findings {
		if known.Ref == f.Ref && known.Fault == f.Fault {
			return
		}
	}
	if len(r.Findings) < MaxFindings {
		r.Findings = append(r.Findings, f)
		return
	}
	r.More++
}
