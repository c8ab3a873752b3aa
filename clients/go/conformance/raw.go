package main

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

// runRaw completes items by the generated stubs alone: it claims n items, and completes n with the next n. It is the
// measure for the throughput of the library.
func runRaw(given settings) error {
	connection, err := grpc.NewClient(string(given.Address), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	client, ctx := pb.NewLeaseServiceClient(connection), context.Background()
	count := int32(given.Concurrency)
	if given.WorkerID == "" {
		given.WorkerID = "raw"
	}
	out := &journal{quiet: true}
	out.ready()
	items := int64(0)
	var leases []*pb.Lease
	for items < given.Until {
		if len(leases) == 0 {
			claimed, err := client.ClaimBatch(ctx, &pb.ClaimBatchRequest{Queue: given.Queue, WorkerId: given.WorkerID, MaxItems: count})
			if err != nil {
				return err
			}
			leases = claimed.GetLeases()
			continue
		}
		request := &pb.CompleteRequest{Queue: given.Queue, Next: &pb.NextClaim{WorkerId: given.WorkerID, MaxItems: count}}
		for _, lease := range leases {
			request.Completions = append(request.Completions, &pb.Completion{LeaseId: lease.GetLeaseId()})
		}
		completed, err := client.Complete(ctx, request)
		if err != nil {
			return err
		}
		items += int64(len(leases))
		leases = completed.GetNext().GetLeases()
	}
	out.done(items)
	return nil
}
