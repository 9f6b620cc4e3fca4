package mayfly_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/mayflyhq/mayfly"
)

// testdata/id-vectors.json fixes the format of ids for every language (L2). An
// implementation is right if it computes the outputs of each entry of "ids" from
// its inputs (birth_ms, lifetime, user or trace, random) and reads both texts
// back, and if it refuses every text of "invalid". A user's trace and C8's
// hashing of users are in "users", the spelling of lifetimes in "lifetimes".
//
// After a deliberate change: go test -run Vectors -update .
var update = flag.Bool("update", false, "write testdata/id-vectors.json anew")

const vectorFile = "testdata/id-vectors.json"

type vectors struct {
	About     []string         `json:"about"`
	IDs       []idVector       `json:"ids"`
	Invalid   []invalidVector  `json:"invalid"`
	Lifetimes []lifetimeVector `json:"lifetimes"`
	Users     []userVector     `json:"users"`
}

type idVector struct {
	Name         string         `json:"name"`
	BirthMS      int64          `json:"birth_ms"`
	Lifetime     string         `json:"lifetime"`
	LifetimeCode uint16         `json:"lifetime_code"`
	User         string         `json:"user,omitempty"` // absent: anonymous, the trace is random
	Trace        uint16         `json:"trace"`
	Random       string         `json:"random"` // 52 bits, 13 hex digits
	UUID         string         `json:"uuid"`
	Base62       string         `json:"base62"`
	DeadlineMS   *int64         `json:"deadline_ms"` // null: never expires
	Minute       *int64         `json:"minute"`
	Shard        mayfly.Shard   `json:"shard"`
	UploadKey    mayfly.BlobKey `json:"upload_key"` // of object 0, were this the id of an upload
	MediaKey     mayfly.BlobKey `json:"media_key"`  // of object 1 of generation 2, were this the id of an item
}

type invalidVector struct {
	Text string `json:"text"`
	Why  string `json:"why"`
}

type lifetimeVector struct {
	Text    string `json:"text"`
	Code    uint16 `json:"code"`
	Spelled string `json:"spelled"`
	Seconds int64  `json:"seconds"` // 0 for never
}

type userVector struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
	User    string `json:"user"`
	Trace   uint16 `json:"trace"`
}

func about() []string {
	return []string{
		"An id is 128 bits, most significant first: birth_ms (48), version 8 (4), lifetime_code (12), variant 10 in binary (2), trace (10), random (52).",
		"lifetime_code is unit (2 bits: 0 second, 1 minute, 2 hour, 3 day) and count (10 bits); 0 is never. Only the smallest unit that says a lifetime exactly is valid; what cannot be said is rounded up.",
		"trace is the first 10 bits of SHA-256 over the 16 bytes of the user; random for anonymous items.",
		"uuid is the canonical lower-case text. base62 is the id as a number in digits 0-9A-Za-z, 22 characters, zero-padded on the left. Both texts, and the bytes, sort by birth.",
		"deadline_ms = birth_ms + lifetime; minute = deadline_ms / 60000, cut; shard = the low 4 bits of random. Expired is: now >= deadline_ms.",
		"upload_key is {trace % 20, two digits}/{base62}/0-{n} for n = 0; media_key is {trace % 20}/{base62}/{generation}-{n} for generation 2, n = 1.",
		"A user is the first 16 bytes of SHA-256 over the strings \"mayfly-user\", issuer, subject, each behind its length in 4 bytes, big-endian.",
	}
}

func number[T ~int64 | ~uint32](v T) *int64 { n := int64(v); return &n }

func idVectors(t testing.TB) []idVector {
	const noon, ana, ben = 1_767_268_800_000, "5b1e0c3a-7d42-4f19-8c55-0a9be2d6f731", "00000000-0000-0000-0000-000000000001"
	inputs := []struct {
		name     string
		birth    int64
		lifetime string
		user     string
		trace    uint16
		random   uint64
	}{
		{"a story of a day", noon, "24h", ana, 0, 0x1f0e9c2b7a43a},
		{"the first instant, all zero", 0, "never", "", 0, 0},
		{"the first instant, one second", 0, "1s", "", 0, 1},
		{"the last minute that 32 bits can say", 1<<32*60_000 - 1001, "1s", "", 1023, 1<<52 - 1},
		{"the largest birth, never", 1<<48 - 1, "never", "", 1023, 1<<52 - 1},
		{"the shortest lifetime", noon, "1s", ana, 0, 0},
		{"60 seconds is not one minute", noon, "60s", ana, 0, 16},
		{"one minute is spelled 60 seconds", noon, "1m", ana, 0, 17},
		{"the most seconds", noon, "1023s", ana, 0, 2},
		{"one second more is rounded up to 18 minutes", noon, "1024s", ana, 0, 3},
		{"ten minutes are 600 seconds", noon, "10m", ana, 0, 4},
		{"an hour is 60 minutes", noon, "1h", ana, 0, 5},
		{"six hours", noon, "6h", ana, 0, 6},
		{"twelve hours", noon, "12h", ana, 0, 7},
		{"the most minutes", noon, "1023m", ana, 0, 8},
		{"one minute more is rounded up to 18 hours", noon, "1024m", ana, 0, 9},
		{"25 h 13 min are rounded up to 26 h", noon, "25h13m", ana, 0, 10},
		{"two days", noon, "48h", ana, 0, 11},
		{"a week", noon, "7d", ana, 0, 12},
		{"the most hours", noon, "1023h", ana, 0, 13},
		{"one hour more is rounded up to 43 days", noon, "1024h", ana, 0, 14},
		{"a year", noon, "1y", ana, 0, 15},
		{"the longest lifetime", noon, "1023d", ana, 0, 0xfffffffffffff},
		{"never", noon, "never", ana, 0, 0x123456789abcd},
		{"deadline on the first millisecond of a minute", 1_767_182_400_000, "24h", ben, 0, 0xabcdef},
		{"deadline on the last millisecond of a minute", 1_767_182_399_999, "24h", ben, 0, 0xabcdee},
		{"born one millisecond later sorts behind", noon + 1, "1s", ben, 0, 0},
		{"an odd millisecond", 1_767_268_812_345, "90s", ben, 0, 0x8000000000000},
		{"an anonymous paste", noon, "10m", "", 777, 0x0123456789abc},
		{"an anonymous paste of prefix 19", noon, "1y", "", 1019, 0xfedcba9876543},
		{"the smallest trace", noon, "24h", "", 0, 0xaaaaaaaaaaaaa},
		{"the largest trace", noon, "24h", "", 1023, 0x5555555555555},
		{"before a leap day", 1_835_308_800_000, "48h", ana, 0, 0xf},
		{"the year 2100", 4_102_444_800_000, "30d", ben, 0, 0x7777777777777},
		{"every shard bit", noon, "24h", ben, 0, 0xfffffffffff0f},
	}
	var out []idVector
	for _, in := range inputs {
		lifetime, err := mayfly.ParseLifetime(in.lifetime)
		if err != nil {
			t.Fatal(err)
		}
		trace := mayfly.Trace(in.trace)
		if in.user != "" {
			user, err := mayfly.ParseUserID(in.user)
			if err != nil {
				t.Fatal(err)
			}
			trace = user.Trace()
		}
		id, err := mayfly.NewID(mayfly.Instant(in.birth), lifetime, trace, in.random)
		if err != nil {
			t.Fatal(err)
		}
		v := idVector{
			Name: in.name, BirthMS: in.birth, Lifetime: in.lifetime, LifetimeCode: uint16(id.Lifetime()),
			User: in.user, Trace: uint16(id.Trace()), Random: fmt.Sprintf("%013x", in.random),
			UUID: id.String(), Base62: id.Short(), Shard: id.Shard(),
			UploadKey: mayfly.UploadKey(id, 0), MediaKey: mayfly.Item{ID: id}.MediaKey(2, 1),
		}
		if id.Expires() {
			v.DeadlineMS, v.Minute = number(id.Deadline()), number(id.Minute())
		}
		out = append(out, v)
	}
	return out
}

func invalidVectors() []invalidVector {
	return []invalidVector{
		{"", "empty"},
		{"019b7954-d600-8818-99a1-f0e9c2b7a43a ", "a space behind"},
		{" 019b7954-d600-8818-99a1-f0e9c2b7a43", "a space in front, 36 characters"},
		{"019B7954-D600-8818-99A1-F0E9C2B7A43A", "upper case"},
		{"019b7954d600881899a1f0e9c2b7a43a", "no dashes"},
		{"019b7954-d600-881899a1--f0e9c2b7a43a", "dashes in other places"},
		{"{19b7954-d600-8818-99a1-f0e9c2b7a43}", "braces"},
		{"019b7954-d600-4818-99a1-f0e9c2b7a43a", "version 4"},
		{"019b7954-d600-7818-99a1-f0e9c2b7a43a", "version 7"},
		{"019b7954-d600-8818-59a1-f0e9c2b7a43a", "variant 01"},
		{"019b7954-d600-8818-d9a1-f0e9c2b7a43a", "variant 11"},
		{"019b7954-d600-8401-99a1-f0e9c2b7a43a", "lifetime of 1 minute, which is spelled 60 seconds"},
		{"019b7954-d600-8811-99a1-f0e9c2b7a43g", "not a hex digit"},
		{"019b7954-d600-8801-99a1-f0e9c2b7a43", "35 characters"},
		{"019b7954-d600-8400-99a1-f0e9c2b7a43a", "lifetime of 0 minutes: only 0 seconds is never"},
		{"019b7954-d600-8c07-99a1-f0e9c2b7a43a", "lifetime of 7 days, which is spelled 168 hours"},
		{"00000000-0000-0000-0000-000000000000", "the nil UUID"},
		{"ffffffff-ffff-ffff-ffff-ffffffffffff", "the max UUID"},
		{"zzzzzzzzzzzzzzzzzzzzzz", "22 digits that are over 128 bits"},
		{"7n42DGM5Tflk9n8mt7Fhc8", "2^128, one over what 128 bits can say"},
		{"7n42DGM5Tflk9n8mt7Fhc7", "2^128 − 1 is no UUIDv8"},
		{"0000000000000000000000", "zero is no UUIDv8"},
		{"322kGpd2oAfQnTLmOclxa", "21 characters"},
		{"00322kGpd2oAfQnTLmOclxa", "23 characters"},
		{"0322kGpd2oAfQnTLmOcl-a", "a dash is no base62 digit"},
	}
}

// spelled is the one spelling that the code of a lifetime has: its count and its unit.
func spelled(code uint16) string {
	if code == 0 {
		return "never"
	}
	return strconv.Itoa(int(code&1023)) + string("smhd"[code>>10])
}

func lifetimeVectors(t testing.TB) []lifetimeVector {
	var out []lifetimeVector
	for _, text := range []string{
		"1ms", "1s", "59s", "60s", "1m", "90s", "1500ms", "1023s", "1023001ms", "1024s", "10m", "17m", "18m", "1h", "1h30m", "17h3m",
		"1023m", "1024m", "24h", "1d", "25h13m", "48h", "1w", "30d", "42d15h", "1023h", "1024h", "365d", "1y", "2y", "1023d", "never",
	} {
		l, err := mayfly.ParseLifetime(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, lifetimeVector{Text: text, Code: uint16(l), Spelled: spelled(uint16(l)), Seconds: int64(l.Duration().Seconds())})
	}
	return out
}

func userVectors() []userVector {
	var out []userVector
	for _, in := range [][2]string{
		{"https://issuer.example", "ana"},
		{"https://issuer.example", ""},
		{"", "ana"},
		{"", ""},
		{"a", "bc"},
		{"ab", "c"},
		{"abc", ""},
		{"", "abc"},
		{"https://issuer.example", "5b1e0c3a-7d42-4f19-8c55-0a9be2d6f731"},
		{"iss", "ä\x00"},
	} {
		u := mayfly.UserOf(in[0], in[1])
		out = append(out, userVector{Issuer: in[0], Subject: in[1], User: u.String(), Trace: uint16(u.Trace())})
	}
	return out
}

func readVectors(t testing.TB) vectors {
	t.Helper()
	data, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVectorsFixTheFormatOfIDs(t *testing.T) {
	v := vectors{About: about(), IDs: idVectors(t), Invalid: invalidVectors(), Lifetimes: lifetimeVectors(t), Users: userVectors()}
	var want bytes.Buffer
	out := json.NewEncoder(&want)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(v); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(vectorFile, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is not what the code computes: ids would change their meaning", vectorFile)
	}
	if len(v.IDs) < 30 {
		t.Errorf("%d vectors", len(v.IDs))
	}
}

// The file read as another language would: from its texts.
func TestVectorsReadBack(t *testing.T) {
	v := readVectors(t)
	for _, want := range v.IDs {
		for _, text := range []string{want.UUID, want.Base62} {
			id, err := mayfly.ParseID(text)
			if err != nil {
				t.Errorf("%s: %v", want.Name, err)
				continue
			}
			if int64(id.Birth()) != want.BirthMS || uint16(id.Lifetime()) != want.LifetimeCode || uint16(id.Trace()) != want.Trace || id.Shard() != want.Shard {
				t.Errorf("%s: %s says %d, %s, %d, %d", want.Name, text, id.Birth(), id.Lifetime(), id.Trace(), id.Shard())
			}
			if id.Expires() != (want.DeadlineMS != nil) {
				t.Errorf("%s: expires: %t", want.Name, id.Expires())
			}
			if want.DeadlineMS != nil && (int64(id.Deadline()) != *want.DeadlineMS || int64(id.Minute()) != *want.Minute) {
				t.Errorf("%s: deadline %d in minute %d", want.Name, id.Deadline(), id.Minute())
			}
		}
	}
	for _, bad := range v.Invalid {
		if id, err := mayfly.ParseID(bad.Text); !errors.Is(err, mayfly.Invalid) || !id.IsZero() {
			t.Errorf("%q (%s) is taken for %s", bad.Text, bad.Why, id)
		}
	}
}
