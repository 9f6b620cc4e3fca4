package story

import (
	"context"
	"time"
)

// afterwards is how long putting things in order may take.
const afterwards = 5 * time.Second

// afterAll is a context for what has to be done also when the caller has gone.
func afterAll(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), afterwards)
}
