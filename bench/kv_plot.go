package bench

import (
	"bytes"
	"fmt"
	"math"

	"github.com/dustin/go-humanize"
)

// kvSample is the space on disk, in MiB, so many seconds after the expiry.
type kvSample struct{ s, mib float64 }

// kvDisk is the space on disk over time, of the product and of Badger.
type kvDisk struct {
	keys         int     // written; every second one has expired
	live         float64 // MiB of keys and values that have not
	ours, badger []kvSample
}

// The bar of K3: the disk takes at most so many times what is live, and the allowance for
// logs and for tables being written.
const (
	kvDiskFactor    = 1.3
	kvDiskAllowance = 128 // MiB
)

// report reports the last sample, and what of it is above the allowance as a multiple of
// what is live.
func (d *kvDisk) report(b *bench, whose string, samples []kvSample) {
	disk := samples[len(samples)-1].mib
	b.report.add("kv.disk_over_live"+whose, max(0, (disk-kvDiskAllowance)/d.live))
	b.report.add("kv.disk"+whose+"_mib", disk)
}

// svg draws the samples.
func (d *kvDisk) svg() []byte {
	const width, height, left, right, top, bottom = 720, 400, 64, 16, 48, 56
	longest, most := 1.0, kvDiskFactor*d.live+kvDiskAllowance
	for _, s := range append(d.ours[:len(d.ours):len(d.ours)], d.badger...) {
		longest, most = max(longest, s.s), max(most, s.mib)
	}
	stepX, stepY := tick(longest), tick(most)
	most = math.Ceil(most/stepY) * stepY
	x := func(s float64) float64 { return left + s/longest*(width-left-right) }
	y := func(mib float64) float64 { return top + (1-mib/most)*(height-top-bottom) }
	var out bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	p(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="12">`, width, height)
	p(`<title>Space on disk after every second of %s keys has expired, without traffic</title>`, humanize.Comma(int64(d.keys)))
	p(`<rect width="%d" height="%d" fill="#fff"/>`, width, height)
	for v := 0.0; v <= most+stepY/2; v += stepY {
		p(`<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end" fill="#333">%s</text>`, left, y(v), width-right, left-8, y(v)+4, humanize.Ftoa(v))
	}
	for v := 0.0; v <= longest; v += stepX {
		p(`<path d="M%.1f %dv5" stroke="#333"/><text x="%.1f" y="%d" text-anchor="middle" fill="#333">%s</text>`, x(v), height-bottom, x(v), height-bottom+20, humanize.Ftoa(v))
	}
	p(`<text x="%d" y="%d" text-anchor="middle" fill="#333">seconds since the expiry</text>`, (left+width-right)/2, height-14)
	p(`<text transform="translate(16 %d) rotate(-90)" text-anchor="middle" fill="#333">space on disk, MiB</text>`, (top+height-bottom)/2)
	for i, one := range []struct {
		name, color, dash string
		samples           []kvSample
	}{
		{"Mayfly", "#0b6e4f", "", d.ours},
		{"Badger 4.9.6", "#b5460f", "", d.badger},
		{"1.3 × live + 128 MiB", "#555", "6 4", []kvSample{{0, kvDiskFactor*d.live + kvDiskAllowance}, {longest, kvDiskFactor*d.live + kvDiskAllowance}}},
		{"live", "#888", "2 4", []kvSample{{0, d.live}, {longest, d.live}}},
	} {
		if len(one.samples) == 0 {
			continue
		}
		fmt.Fprintf(&out, `<polyline fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s" points="`, one.color, one.dash)
		for _, s := range one.samples {
			fmt.Fprintf(&out, "%.1f,%.1f ", x(s.s), y(s.mib))
		}
		p(`"/>`)
		at := left + i*165
		p(`<path d="M%d 24h24" stroke="%s" stroke-width="2" stroke-dasharray="%s"/><text x="%d" y="28" fill="#333">%s</text>`, at, one.color, one.dash, at+30, one.name)
	}
	p(`</svg>`)
	return out.Bytes()
}

// tick returns the distance of at most eight marks up to a value: 1, 2 or 5 with zeros.
func tick(to float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(to/8)))
	for _, n := range []float64{1, 2, 5} {
		if to/(n*step) <= 8 {
			return n * step
		}
	}
	return 10 * step
}
