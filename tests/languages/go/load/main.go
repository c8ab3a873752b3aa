// Load on a queue, as `Load` in `tests/balancers/load.rs` describes it. Arguments: address, service config.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const queue = "work"

// Tries of an Enqueue, which together take longer than the restart of a broker.
const tries = 100

type seen struct {
	Calls     int      `json:"calls"`
	Failures  [][]any  `json:"failures"`
	Added     []string `json:"added"`
	Completed []string `json:"completed"`
}

var (
	hasPolicy = os.Args[2] != ""
	stopped   atomic.Bool
	lock      sync.Mutex
	result    = seen{Failures: [][]any{}, Added: []string{}, Completed: []string{}}
)

func ended(method string, err error) {
	lock.Lock()
	defer lock.Unlock()
	result.Calls++
	if result.Calls == 1 {
		fmt.Println("begun")
	}
	if err != nil {
		failure := status.Convert(err)
		result.Failures = append(result.Failures, []any{method, failure.Code(), failure.Message()})
	}
}

func call[Request, Response any](
	method string,
	send func(context.Context, Request, ...grpc.CallOption) (Response, error),
	request Request,
) (Response, bool) {
	for left := tries - 1; ; left-- {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		response, err := send(ctx, request)
		cancel()
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			if left > 0 && hasPolicy && method == "Enqueue" && status.Code(err) == codes.Unavailable {
				continue
			}
		}
		ended(method, err)
		return response, err == nil
	}
}

func uuid() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func requestID() string {
	if hasPolicy {
		return uuid()
	}
	return ""
}

func produce(client pb.LeaseServiceClient) {
	for !stopped.Load() {
		var payloads []string
		var items []*pb.NewItem
		for range 5 {
			payload := uuid()
			payloads = append(payloads, payload)
			value := &pb.ColumnValue{Kind: &pb.ColumnValue_StringValue{StringValue: payload}}
			items = append(items, &pb.NewItem{Columns: map[string]*pb.ColumnValue{"payload": value}})
		}
		request := &pb.EnqueueRequest{Queue: queue, Items: items, RequestId: uuid()}
		if _, ok := call("Enqueue", client.Enqueue, request); ok {
			lock.Lock()
			result.Added = append(result.Added, payloads...)
			lock.Unlock()
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func work(client pb.LeaseServiceClient, name string) {
	for !stopped.Load() {
		claim := &pb.ClaimBatchRequest{
			Queue: queue, WorkerId: name, MaxItems: 5, RequestId: requestID(), WaitTimeout: durationpb.New(time.Second),
		}
		claimed, ok := call("ClaimBatch", client.ClaimBatch, claim)
		if !ok || len(claimed.Leases) == 0 {
			continue
		}
		var completions []*pb.Completion
		for _, lease := range claimed.Leases {
			completions = append(completions, &pb.Completion{LeaseId: lease.LeaseId})
		}
		settled, ok := call("Complete", client.Complete, &pb.CompleteRequest{Queue: queue, Completions: completions})
		if !ok {
			continue
		}
		lock.Lock()
		for i, lease := range claimed.Leases {
			if settled.Results[i].Outcome == pb.Outcome_OUTCOME_APPLIED {
				result.Completed = append(result.Completed, lease.Item.Key)
			}
		}
		lock.Unlock()
	}
}

func main() {
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if hasPolicy {
		options = append(options, grpc.WithDefaultServiceConfig(os.Args[2]))
	} else {
		options = append(options, grpc.WithDisableRetry())
	}
	connection, err := grpc.NewClient(os.Args[1], options...)
	if err != nil {
		log.Fatal(err)
	}
	client := pb.NewLeaseServiceClient(connection)
	var threads sync.WaitGroup
	threads.Go(func() { produce(client) })
	for n := range 4 {
		threads.Go(func() { work(client, "worker-"+strconv.Itoa(n)) })
	}
	io.Copy(io.Discard, os.Stdin)
	stopped.Store(true)
	threads.Wait()
	json.NewEncoder(os.Stdout).Encode(result)
}
