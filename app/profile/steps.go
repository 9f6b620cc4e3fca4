package profile

import "errors"

// The folders of the drivers in a data folder.
const (
	ledgerFolder = "ledger"
	hotFolder    = "hot"
	coldFolder   = "cold"
	kvFolder     = "kv"
)

// steps are the formats of a data folder: the n-th step leads to format n. A
// step that was released is never changed; what comes after it is another one.
func steps() []step {
	return []step{
		{"folders for ledger, hot and cold", makeFolders},
		{"folder for keys with a time to live", makeKVFolder},
	}
}

func makeFolders(f *folder) error {
	for _, name := range []string{ledgerFolder, hotFolder, coldFolder} {
		if err := f.makeFolder(name); err != nil {
			return err
		}
	}
	return f.sync()
}

func makeKVFolder(f *folder) error { return errors.Join(f.makeFolder(kvFolder), f.sync()) }
