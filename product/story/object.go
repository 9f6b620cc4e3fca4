package story

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mayflyhq/mayfly"
)

// Object names one of a story's objects: a medium, or a smaller picture of it.
type Object struct {
	Medium  int
	Longest int // side in pixels; 0: the medium itself
}

// String is the object's word in URLs: 0, or 0-320.
func (o Object) String() string {
	if o.Longest == 0 {
		return strconv.Itoa(o.Medium)
	}
	return fmt.Sprintf("%d-%d", o.Medium, o.Longest)
}

// ParseObject reads the one spelling that String writes. What is none is
// NotFound: it is the last part of a URL that leads nowhere.
func ParseObject(text string) (Object, error) {
	medium, longest, smaller := strings.Cut(text, "-")
	var o Object
	var errs [2]error
	o.Medium, errs[0] = strconv.Atoi(medium)
	if smaller {
		o.Longest, errs[1] = strconv.Atoi(longest)
	}
	if _, made := mayfly.RenditionOf(o.Medium, o.Longest); smaller && !made {
		return Object{}, mayfly.NotFound
	}
	if errs[0] != nil || errs[1] != nil || o.Medium < 0 || o.Medium >= mayfly.MaxMedia || o.String() != text {
		return Object{}, mayfly.NotFound
	}
	return o, nil
}

// Sizes are the longest sides of the smaller pictures of a medium.
func Sizes() []int { return []int{mayfly.SmallRendition, mayfly.LargeRendition} }
