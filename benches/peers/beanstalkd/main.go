// Load for beanstalkd: puts jobs, then reserves and deletes all of them over several connections, as they are or
// pipelined, and prints how many a second. Cheap on purpose, as it shares the server's cores.
package main

import (
	"flag"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	address := flag.String("address", "127.0.0.1:11300", "where beanstalkd listens")
	connections := flag.Int("connections", 8, "connections that reserve and delete")
	pipeline := flag.Int("pipeline", 1, "commands sent before their answers are read")
	next := flag.Bool("next", false, "send the deletes and the next reserves together")
	items := flag.Int("items", 10_000, "jobs to put, reserve and delete")
	payload := flag.Int("payload", 100, "bytes of a job")
	flag.Parse()

	if err := put(*address, *items, *payload); err != nil {
		log.Fatalf("put: %v", err)
	}
	rate, err := drain(*address, *connections, *pipeline, *next, *items)
	if err != nil {
		log.Fatalf("reserve and delete: %v", err)
	}
	fmt.Printf("%.1f\n", rate)
}

// put fills the queue over one connection, pipelined.
func put(address string, items, payload int) error {
	client, err := dial(address)
	if err != nil {
		return err
	}
	defer client.close()
	const chunk = 500
	for done := 0; done < items; done += chunk {
		count := min(chunk, items-done)
		if err := client.put(count, payload); err != nil {
			return err
		}
	}
	return nil
}

// drain returns the items a second from the moment all are connected to the last answer, and fails unless each job was
// reserved and deleted once.
func drain(address string, connections, pipeline int, next bool, items int) (float64, error) {
	var left atomic.Int64
	left.Store(int64(items))
	// Ids of a fresh server count from 1.
	taken := make([]atomic.Bool, items+1)
	clients := make([]*client, connections)
	for at := range clients {
		client, err := dial(address)
		if err != nil {
			return 0, err
		}
		defer client.close()
		clients[at] = client
	}
	failures := make(chan error, connections)
	var all sync.WaitGroup
	start := time.Now()
	for _, each := range clients {
		all.Add(1)
		go func(client *client) {
			defer all.Done()
			if err := work(client, pipeline, next, &left, taken); err != nil {
				failures <- err
			}
		}(each)
	}
	all.Wait()
	took := time.Since(start)
	close(failures)
	if err := <-failures; err != nil {
		return 0, err
	}
	return float64(items) / took.Seconds(), nil
}

// work holds the jobs of a turn until its next turn, which deletes them, if next is set.
func work(client *client, pipeline int, next bool, left *atomic.Int64, taken []atomic.Bool) error {
	ids, held := make([]int, 0, pipeline), make([]int, 0, pipeline)
	for {
		// The share is taken before it is asked for, so that no connection waits for a job that is not there.
		share := pipeline
		if rest := int(left.Add(-int64(pipeline))); rest < 0 {
			share = max(0, pipeline+rest)
		}
		if share == 0 && len(held) == 0 {
			return nil
		}
		var err error
		if ids, err = client.deleteAndReserve(held, share, ids[:0]); err != nil {
			return err
		}
		for _, id := range ids {
			if id < 1 || id >= len(taken) || taken[id].Swap(true) {
				return fmt.Errorf("job %d was reserved twice, or never put", id)
			}
		}
		if !next {
			if ids, err = client.deleteAndReserve(ids, 0, ids[:0]); err != nil {
				return err
			}
		}
		held, ids = ids, held
	}
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

func max(a, b int) int {
	if a > b {
		return a
	}
	return b
}
