package archive

import (
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
)

// reread keeps the rows that are still as this pass has named them: no byte goes
// without a look at the row just before (I12). A hold that came since keeps hot
// (I21), and its release brings the archive back; whoever else has moved a row
// erases what there is to erase.
func (p *pass) reread(ctx context.Context) error {
	if len(p.rows) == 0 {
		return nil
	}
	ids := make([]mayfly.ID, len(p.rows))
	for i, item := range p.rows {
		ids[i] = item.ID
	}
	found, err := p.set.Ledger.Get(ctx, ids...)
	if err != nil {
		return fmt.Errorf("read %d rows before hot is erased: %w", len(ids), err)
	}
	kept := make([]mayfly.Item, 0, len(p.rows))
	for i, item := range p.rows {
		if found[i].Found && found[i].Item.Generation == item.Generation && !found[i].Item.Held {
			kept = append(kept, item)
		}
	}
	p.rows = kept
	return nil
}
