// Command postgres is a peer of mayfly bench home: PostgreSQL 15 behind a bare net/http
// handler, with the query that the published design of feeds begins with.
//
// It makes a database of its own in a temporary folder, with PostgreSQL's default
// settings but for more memory (shared_buffers=512MB) and without JIT, which only slows
// this query, and loads posts.tsv and follows.tsv from -data. It prints one line of JSON
// when it serves: its URL. It ends, and removes the database, when its standard input
// ends.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func main() {
	data := flag.String("data", "", "folder with posts.tsv and follows.tsv")
	flag.Int("users", 0, "not used")
	programs := flag.String("programs", "/usr/lib/postgresql/15/bin", "folder of initdb and postgres")
	flag.Parse()
	if err := run(context.Background(), *data, *programs); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, data, programs string) (err error) {
	if _, err := os.Stat(filepath.Join(programs, "postgres")); err != nil {
		return fmt.Errorf("%w (apt-get install postgresql-15 installs it)", err)
	}
	folder, err := os.MkdirTemp("", "mayfly-pg-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	db, err := start(programs, folder)
	if err != nil {
		return err
	}
	defer func() {
		_ = db.Process.Signal(syscall.SIGQUIT) // at once: the folder goes
		_ = db.Wait()
	}()
	pool, err := connect(ctx, folder)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := load(ctx, pool, data); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /home", home(pool, "posts"))
	mux.Handle("GET /home-by-time", home(pool, "posts_by_time"))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"url": "http://" + l.Addr().String()}); err != nil {
		return err
	}
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// start makes a database in a folder and starts PostgreSQL on it, on a socket in the
// folder. It does not run as root: it gets the system's user postgres then.
func start(programs, folder string) (*exec.Cmd, error) {
	var as *syscall.SysProcAttr
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return nil, fmt.Errorf("%w: PostgreSQL does not run as root", err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Chown(folder, uid, gid); err != nil {
			return nil, err
		}
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	db := filepath.Join(folder, "db")
	program := func(name string, args ...string) *exec.Cmd {
		c := exec.Command(filepath.Join(programs, name), args...)
		c.Dir, c.Stderr, c.SysProcAttr = folder, os.Stderr, as
		return c
	}
	if err := program("initdb", "-D", db, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8").Run(); err != nil {
		return nil, fmt.Errorf("initdb: %w", err)
	}
	c := program("postgres", "-D", db, "-c", "listen_addresses=", "-c", "unix_socket_directories="+folder,
		"-c", "shared_buffers=512MB", "-c", "jit=off", "-c", "log_min_messages=fatal")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if as != nil {
		c.SysProcAttr.Credential = as.Credential
	}
	return c, c.Start()
}

func connect(ctx context.Context, folder string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig("host=" + folder + " user=postgres dbname=postgres")
	if err != nil {
		return nil, err
	}
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(20 * time.Second); ; {
		if err = pool.Ping(ctx); err == nil {
			return pool, nil
		}
		if time.Now().After(until) {
			pool.Close()
			return nil, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// load makes the tables: posts has the index of the published design, posts_by_time
// another one by time alone.
func load(ctx context.Context, pool *pgxpool.Pool, data string) error {
	const columns = "(id uuid PRIMARY KEY, author_id uuid NOT NULL, created_at timestamptz NOT NULL, text text NOT NULL)"
	const raw = "(id uuid, author_id uuid, at bigint, text text)"
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	run := func(statement string) error {
		_, err := conn.Exec(ctx, statement)
		return err
	}
	from := func(file, statement string) error {
		f, err := os.Open(filepath.Join(data, file))
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // it was read
		_, err = conn.Conn().PgConn().CopyFrom(ctx, f, statement)
		return err
	}
	return errors.Join(
		run("CREATE UNLOGGED TABLE raw "+raw),
		from("posts.tsv", "COPY raw FROM STDIN"),
		run("CREATE TABLE follows (reader_id uuid, author_id uuid, PRIMARY KEY (reader_id, author_id))"),
		from("follows.tsv", "COPY follows FROM STDIN"),
		run("CREATE TABLE posts "+columns),
		run("INSERT INTO posts SELECT id, author_id, to_timestamp(at / 1000.0), text FROM raw"),
		run("CREATE INDEX ON posts (author_id, created_at DESC)"),
		run("CREATE TABLE posts_by_time "+columns),
		run("INSERT INTO posts_by_time SELECT * FROM posts"),
		run("CREATE INDEX ON posts_by_time (author_id, created_at DESC)"),
		run("CREATE INDEX ON posts_by_time (created_at DESC)"),
		run("DROP TABLE raw"), run("VACUUM ANALYZE"), run("CHECKPOINT"),
	)
}

// post is a post as the handler sends it.
type post struct {
	ID        [16]byte  `json:"-"`
	AuthorID  [16]byte  `json:"-"`
	IDText    string    `json:"id"`
	Author    string    `json:"author"`
	CreatedAt time.Time `json:"created_at"`
	Text      string    `json:"text"`
}

// home sends a page of a reader's home: whom the reader follows, and their posts.
func home(pool *pgxpool.Pool, table string) http.HandlerFunc {
	query := "SELECT id, author_id, created_at, text FROM " + table + " WHERE author_id = ANY($1) ORDER BY created_at DESC LIMIT $2"
	page := func(ctx context.Context, reader string, limit int) ([]post, error) {
		rows, err := pool.Query(ctx, "SELECT author_id FROM follows WHERE reader_id = $1", reader)
		if err != nil {
			return nil, err
		}
		authors, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
		if err != nil {
			return nil, err
		}
		if rows, err = pool.Query(ctx, query, authors, limit); err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p post, err error) {
			err = row.Scan(&p.ID, &p.AuthorID, &p.CreatedAt, &p.Text)
			p.IDText, p.Author = text(p.ID), text(p.AuthorID)
			return p, err
		})
	}
	return func(w http.ResponseWriter, r *http.Request) {
		limit, err := strconv.Atoi(r.FormValue("limit"))
		var posts []post
		if err == nil {
			posts, err = page(r.Context(), r.FormValue("reader"), limit)
		}
		var body bytes.Buffer
		if err == nil {
			err = json.NewEncoder(&body).Encode(map[string]any{"posts": posts})
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
		_, _ = w.Write(body.Bytes()) // the client notices
	}
}

// text is a UUID as text.
func text(id [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
