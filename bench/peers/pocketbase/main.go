// Command pocketbase is a peer of mayfly bench http: PocketBase with its default
// settings, a collection with the fields of a story, and users who publish.
//
// It prints one line of JSON when it serves: its URL, and id and token of each
// user. It ends when its standard input does.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"

	"github.com/pocketbase/pocketbase/apis"
	"github.com/pocketbase/pocketbase/core"
	_ "github.com/pocketbase/pocketbase/migrations" // the tables that PocketBase starts with
	"github.com/pocketbase/pocketbase/tools/types"
)

// user is an author, with an access token.
type user struct {
	ID    string `json:"id"`
	Token string `json:"token"`
}

func main() {
	data := flag.String("data", "", "data folder")
	users := flag.Int("users", 32, "number of users")
	flag.Parse()
	if err := run(*data, *users); err != nil {
		log.Fatal(err)
	}
}

func run(data string, count int) error {
	app := core.NewBaseApp(core.BaseAppConfig{DataDir: data})
	if err := app.Bootstrap(); err != nil {
		return err
	}
	if err := app.RunAllMigrations(); err != nil {
		return err
	}
	users, err := makeUsers(app, count)
	if err != nil {
		return fmt.Errorf("make users: %w", err)
	}
	if err := makeStories(app); err != nil {
		return fmt.Errorf("make the collection of stories: %w", err)
	}
	app.OnServe().BindFunc(func(e *core.ServeEvent) error {
		e.InstallerFunc = nil // it would open a browser
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		e.Listener = l
		if err := e.Next(); err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"url": "http://" + l.Addr().String(), "users": users})
	})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return apis.Serve(app, apis.ServeConfig{HttpAddr: "127.0.0.1:0"})
}

// makeUsers creates records of the collection of users that PocketBase starts with.
func makeUsers(app core.App, count int) ([]user, error) {
	collection, err := app.FindCollectionByNameOrId("users")
	if err != nil {
		return nil, err
	}
	all := make([]user, count)
	for i := range all {
		r := core.NewRecord(collection)
		r.SetEmail(fmt.Sprintf("author-%d@example.org", i))
		r.SetRandomPassword()
		if err := app.Save(r); err != nil {
			return nil, err
		}
		if all[i].Token, err = r.NewAuthToken(); err != nil {
			return nil, err
		}
		all[i].ID = r.Id
	}
	return all, nil
}

// makeStories creates a collection with the fields of a story and with rules like
// those of a gate: users publish their own stories and see those of everyone until
// their deadline.
func makeStories(app core.App) error {
	users, err := app.FindCollectionByNameOrId("users")
	if err != nil {
		return err
	}
	c := core.NewBaseCollection("stories")
	c.Fields.Add(
		&core.RelationField{Name: "author", CollectionId: users.Id, Required: true, MaxSelect: 1, CascadeDelete: true},
		&core.TextField{Name: "caption"},
		&core.SelectField{Name: "audience", Values: []string{"everyone", "followers", "close_friends"}, Required: true, MaxSelect: 1},
		&core.DateField{Name: "expires_at", Required: true},
		&core.FileField{Name: "media", Required: true, MaxSelect: 1, MaxSize: 10 << 20, MimeTypes: []string{"image/jpeg", "image/png"}},
		&core.AutodateField{Name: "born_at", OnCreate: true},
	)
	c.AddIndex("stories_of_author", false, "author, expires_at", "")
	c.CreateRule = types.Pointer(`@request.auth.id != "" && author = @request.auth.id`)
	see := types.Pointer(`author = @request.auth.id || (audience = "everyone" && expires_at > @now)`)
	c.ViewRule, c.ListRule = see, see
	return app.Save(c)
}
