// Makes every call of the API once, with the client that protoc-gen-go and protoc-gen-go-grpc generate. Argument: the
// address of the service.
package main

import (
	"context"
	"log"
	"os"
	"time"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"
)

const queue = "work"

var payloads = []string{"complete", "fail", "release"}

func check(ok bool, text string, values ...any) {
	if !ok {
		log.Fatal(append([]any{text, ": "}, values...)...)
	}
}

func must[T any](response T, err error) T {
	check(err == nil, "call failed", err)
	return response
}

func main() {
	connection := must(grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer connection.Close()
	client := pb.NewLeaseServiceClient(connection)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	var items []*pb.NewItem
	for _, payload := range payloads {
		items = append(items, &pb.NewItem{Columns: map[string]*pb.ColumnValue{
			"payload": {Kind: &pb.ColumnValue_StringValue{StringValue: payload}},
			"note":    {Kind: &pb.ColumnValue_NullValue{NullValue: structpb.NullValue_NULL_VALUE}},
		}})
	}
	added := must(client.Enqueue(ctx, &pb.EnqueueRequest{Queue: queue, Items: items}))
	check(len(added.Results) == 3, "results", added)

	claimed := must(client.ClaimBatch(ctx, &pb.ClaimBatchRequest{Queue: queue, WorkerId: "go", MaxItems: 3}))
	check(len(claimed.Leases) == 3, "leases", claimed)
	var ids []string
	var renewals []*pb.Renewal
	for i, lease := range claimed.Leases {
		check(lease.Item.Columns["payload"].GetStringValue() == payloads[i], "payload", lease)
		_, isNull := lease.Item.Columns["note"].Kind.(*pb.ColumnValue_NullValue)
		check(isNull, "note", lease)
		ids = append(ids, lease.LeaseId)
		renewals = append(renewals, &pb.Renewal{LeaseId: lease.LeaseId})
	}

	heartbeat := must(client.Heartbeat(ctx, &pb.HeartbeatRequest{Queue: queue, Renewals: renewals}))
	for _, result := range heartbeat.Results {
		check(result.Outcome == pb.Outcome_OUTCOME_APPLIED, "heartbeat", result)
	}

	note := &pb.ColumnValue{Kind: &pb.ColumnValue_StringValue{StringValue: "written"}}
	completed := must(client.Complete(ctx, &pb.CompleteRequest{
		Queue: queue, Completions: []*pb.Completion{{LeaseId: ids[0], Columns: map[string]*pb.ColumnValue{"note": note}}},
	}))
	check(completed.Results[0].State == pb.ItemState_ITEM_STATE_COMPLETED, "complete", completed)
	failed := must(client.Fail(ctx, &pb.FailRequest{
		Queue: queue, Failures: []*pb.Failure{{LeaseId: ids[1], ErrorMessage: "no", DeadLetter: true}},
	}))
	check(failed.Results[0].State == pb.ItemState_ITEM_STATE_DEAD, "fail", failed)
	released := must(client.Release(ctx, &pb.ReleaseRequest{
		Queue: queue, Releases: []*pb.Release{{LeaseId: ids[2]}},
	}))
	check(released.Results[0].State == pb.ItemState_ITEM_STATE_READY, "release", released)
}
