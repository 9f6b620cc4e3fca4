package diskstore

import (
	"crypto/aes"
	"crypto/cipher"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly/store/diskfs"
)

// noHoles hides the descriptor of files, so that zeros are written.
type noHoles struct{ vfs.FS }

func (f noHoles) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.OpenReadWrite(name, c, o...)
	return noHole{file}, err
}

type noHole struct{ vfs.File }

func (noHole) Fd() uintptr { return vfs.InvalidFd }

// BenchmarkWaysToErase deletes one object of 8 KiB in a hundred, all over the volumes,
// and erases their bytes: docs/decisions/0014.
func BenchmarkWaysToErase(b *testing.B) {
	const objects, size = 1024, 8 * kibibyte
	for _, way := range []string{"rewriting volumes", "writing zeros", "punching holes", "dropping keys"} {
		b.Run(way, func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				var meter diskfs.Meter
				fs := diskfs.Metered(onDisk(b), &meter)
				if way == "writing zeros" {
					fs = noHoles{fs}
				}
				rng := rand.New(rand.NewPCG(1, 1))
				s := mustOpen(b, Options{FS: fs, Dir: "tier", VolumeBytes: mebibyte})
				for n := range objects {
					mustPut(b, s, testKey(n), noise(rng, size))
				}
				for n := 0; n < objects; n += 100 {
					if err := s.Delete(b.Context(), testKey(n)); err != nil {
						b.Fatal(err)
					}
				}
				before := meter.Read()
				b.StartTimer()
				var err error
				switch way {
				case "rewriting volumes":
					s.sealWaste()
					volumes, _ := s.waste.list()
					for _, n := range volumes {
						if v, sealed := s.wasted(n); sealed && v.dead > 0 && err == nil {
							err = s.empty(b.Context(), n)
						}
					}
				case "dropping keys": // a key in each record: the index is what has to forget
					err = s.EraseDeleted(b.Context())
				default:
					err = s.Reclaim(b.Context())
				}
				b.StopTimer()
				if err != nil {
					b.Fatal(err)
				}
				wrote := meter.Read().Since(before).Total()
				b.ReportMetric(float64(wrote.Bytes)/((objects+99)/100*size), "written/erased")
				b.ReportMetric(float64(wrote.Syncs), "fsyncs")
				mustClose(b, s)
			}
		})
	}
	b.Run("encrypting 8 KiB", func(b *testing.B) { // what dropping keys adds to every put and read
		block, err := aes.NewCipher(make([]byte, 32))
		if err != nil {
			b.Fatal(err)
		}
		data := make([]byte, size)
		for b.Loop() {
			cipher.NewCTR(block, make([]byte, aes.BlockSize)).XORKeyStream(data, data)
		}
	})
}
