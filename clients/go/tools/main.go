// Compiles lease_broker.proto and writes the messages and stubs of the Go library.
//
//	tools PROTO_FOLDER OUTPUT_FOLDER PLUGIN…
package main

import (
	"bytes"
	"context"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	source = "leasebroker/v1/lease_broker.proto"
	module = "module=example.com/lease-broker/clients/go"
)

func main() {
	log.SetFlags(0)
	protos, output, plugins := os.Args[1], os.Args[2], os.Args[3:]
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{protos}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), source)
	check(err)
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{source}, Parameter: proto.String(module), ProtoFile: withImports(files[0]),
	}
	for _, plugin := range plugins {
		for _, file := range run(plugin, request).GetFile() {
			check(os.WriteFile(filepath.Join(output, file.GetName()), []byte(file.GetContent()), 0o644))
		}
	}
}

// withImports returns the descriptors of a file and its imports, each before the files that import it.
func withImports(file linker.File) []*descriptorpb.FileDescriptorProto {
	var all []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		all = append(all, protoutil.ProtoFromFileDescriptor(file))
	}
	add(file)
	return all
}

func run(plugin string, request *pluginpb.CodeGeneratorRequest) *pluginpb.CodeGeneratorResponse {
	input, err := proto.Marshal(request)
	check(err)
	command := exec.Command(plugin)
	command.Stdin, command.Stderr = bytes.NewReader(input), os.Stderr
	output, err := command.Output()
	check(err)
	response := &pluginpb.CodeGeneratorResponse{}
	check(proto.Unmarshal(output, response))
	if response.Error != nil {
		log.Fatal(response.GetError())
	}
	return response
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
