// Load generator for River: inserts jobs, works all of them, and prints the jobs per second. The default settings are
// those of River's benchmark command, `river bench`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// item is a job with a payload as long as that of the other systems.
type item struct {
	Payload string `json:"payload"`
}

func (item) Kind() string { return "item" }

type worker struct {
	river.WorkerDefaults[item]
}

func (*worker) Work(context.Context, *river.Job[item]) error { return nil }

func main() {
	items := flag.Int("items", 10_000, "jobs to add and work")
	payload := flag.Int("payload", 100, "payload bytes per job")
	workers := flag.Int("workers", 2_000, "concurrent jobs")
	cooldown := flag.Duration("fetch-cooldown", 2*time.Millisecond, "minimum time between two fetches")
	poll := flag.Duration("fetch-poll", 20*time.Millisecond, "time between two fetches without notifications")
	connections := flag.Int("connections", 8, "maximum number of connections to PostgreSQL")
	flag.Parse()

	config := &river.Config{
		FetchCooldown:     *cooldown,
		FetchPollInterval: *poll,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: *workers}},
		Workers:           river.NewWorkers(),
	}
	river.AddWorker(config.Workers, &worker{})
	rate, err := run(context.Background(), config, *items, *payload, *connections)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.1f\n", rate)
}

// run connects to the PostgreSQL of the PG… environment variables.
func run(ctx context.Context, config *river.Config, items, payload, connections int) (float64, error) {
	pool, err := connect(ctx, connections)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	if err := migrate(ctx, driver, pool); err != nil {
		return 0, err
	}
	client, err := river.NewClient(driver, config)
	if err != nil {
		return 0, err
	}
	if err := add(ctx, client, items, payload); err != nil {
		return 0, err
	}
	if _, err := pool.Exec(ctx, "VACUUM ANALYZE river_job"); err != nil {
		return 0, err
	}
	if _, err := pool.Exec(ctx, "CHECKPOINT"); err != nil {
		return 0, err
	}
	rate, err := work(ctx, client, items)
	if err != nil {
		return 0, err
	}
	return rate, check(ctx, pool, items)
}

func connect(ctx context.Context, connections int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(connections)
	return pgxpool.NewWithConfig(ctx, config)
}

func migrate(ctx context.Context, driver *riverpgxv5.Driver, pool *pgxpool.Pool) error {
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "TRUNCATE river_job")
	return err
}

func add(ctx context.Context, client *river.Client[pgx.Tx], items, payload int) error {
	args := item{Payload: strings.Repeat("x", payload)}
	const chunk = 5_000
	for done := 0; done < items; done += chunk {
		batch := make([]river.InsertManyParams, min(chunk, items-done))
		for at := range batch {
			batch[at].Args = args
		}
		if _, err := client.InsertManyFast(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// work measures from the client's start to the event that reports the last completion as committed.
func work(ctx context.Context, client *river.Client[pgx.Tx], items int) (float64, error) {
	// The channel has room for one event per job, as River drops events when it is full.
	events, cancel := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: items,
		Kinds:    []river.EventKind{river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobCancelled},
	})
	defer cancel()
	start := time.Now()
	if err := client.Start(ctx); err != nil {
		return 0, err
	}
	for range items {
		event := <-events
		if event == nil {
			return 0, errors.New("the client ended before all jobs were worked")
		}
		if event.Kind != river.EventKindJobCompleted {
			return 0, fmt.Errorf("a job was not completed: %s", event.Kind)
		}
	}
	took := time.Since(start)
	if err := client.Stop(ctx); err != nil {
		return 0, err
	}
	return float64(items) / took.Seconds(), nil
}

func check(ctx context.Context, pool *pgxpool.Pool, items int) error {
	var once int
	const completedOnce = "SELECT count(*) FROM river_job WHERE state = 'completed' AND attempt = 1"
	if err := pool.QueryRow(ctx, completedOnce).Scan(&once); err != nil {
		return err
	}
	if once != items {
		return fmt.Errorf("%d of %d jobs were completed once", once, items)
	}
	return nil
}
