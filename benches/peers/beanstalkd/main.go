// Load generator for beanstalkd: puts jobs, then reserves and deletes all of them over several connections, one at a
// time or pipelined, and prints the jobs per second. It does little work per job, because it shares the server's
// cores.
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
	address := flag.String("address", "127.0.0.1:11300", "address of beanstalkd")
	connections := flag.Int("connections", 8, "connections that reserve and delete")
	pipeline := flag.Int("pipeline", 1, "commands to send before reading their replies")
	next := flag.Bool("next", false, "send the deletes and the next reserves together")
	items := flag.Int("items", 10_000, "jobs to put, reserve and delete")
	payload := flag.Int("payload", 100, "bytes per job")
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

// drain returns the jobs per second between the last connect and the last reply. It fails if a job was not reserved
// and deleted exactly once.
func drain(address string, connections, pipeline int, next bool, items int) (float64, error) {
	var left atomic.Int64
	left.Store(int64(items))
	// A new server numbers its jobs from 1.
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

// work reserves and deletes jobs. If next is set, it deletes the jobs of one iteration together with the next reserve.
func work(client *client, pipeline int, next bool, left *atomic.Int64, taken []atomic.Bool) error {
	ids, held := make([]int, 0, pipeline), make([]int, 0, pipeline)
	for {
		// Takes a share of the remaining jobs first, so that no connection waits for a job that does not exist.
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
				return fmt.Errorf("job %d was reserved twice or never put", id)
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
