// Translation between the values of columns and Go's types.

package leasebroker

import (
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "example.com/lease-broker/clients/go/leasebrokerv1"
)

// Row has the values of columns by name.
//
// A value that arrives is a bool, int64, float64, string, []byte, time.Time in UTC, Decimal, or nil for NULL. A value that
// is sent can also be of any other integer type, or a float32.
type Row map[string]any

// Decimal is an exact decimal number as text, such as "-12.50".
type Decimal string

func rowToProto(row Row) (map[string]*pb.Value, error) {
	if len(row) == 0 {
		return nil, nil
	}
	values := make(map[string]*pb.Value, len(row))
	for column, value := range row {
		message, err := valueToProto(value)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", column, err)
		}
		values[column] = message
	}
	return values, nil
}

func valueToProto(value any) (*pb.Value, error) {
	switch value := value.(type) {
	case nil:
		return &pb.Value{Kind: &pb.Value_NullValue{NullValue: structpb.NullValue_NULL_VALUE}}, nil
	case bool:
		return &pb.Value{Kind: &pb.Value_BoolValue{BoolValue: value}}, nil
	case string:
		if !utf8.ValidString(value) {
			return nil, fmt.Errorf("the text is not valid UTF-8")
		}
		return &pb.Value{Kind: &pb.Value_StringValue{StringValue: value}}, nil
	case []byte:
		return &pb.Value{Kind: &pb.Value_BytesValue{BytesValue: value}}, nil
	case float64:
		return &pb.Value{Kind: &pb.Value_DoubleValue{DoubleValue: value}}, nil
	case float32:
		return &pb.Value{Kind: &pb.Value_DoubleValue{DoubleValue: float64(value)}}, nil
	case time.Time:
		return &pb.Value{Kind: &pb.Value_TimestampValue{TimestampValue: timestamppb.New(value)}}, nil
	case Decimal:
		return &pb.Value{Kind: &pb.Value_DecimalValue{DecimalValue: string(value)}}, nil
	case uint64:
		if value > math.MaxInt64 {
			return nil, fmt.Errorf("%d is too large for a signed integer of 64 bits; pass a Decimal", value)
		}
		return integer(int64(value)), nil
	case uint:
		return valueToProto(uint64(value))
	case int64:
		return integer(value), nil
	case int:
		return integer(int64(value)), nil
	case int32:
		return integer(int64(value)), nil
	case int16:
		return integer(int64(value)), nil
	case int8:
		return integer(int64(value)), nil
	case uint32:
		return integer(int64(value)), nil
	case uint16:
		return integer(int64(value)), nil
	case uint8:
		return integer(int64(value)), nil
	default:
		return nil, fmt.Errorf("%T is not a type of a column", value)
	}
}

func integer(value int64) *pb.Value {
	return &pb.Value{Kind: &pb.Value_Int64Value{Int64Value: value}}
}

func rowFromProto(values map[string]*pb.Value) Row {
	row := make(Row, len(values))
	for column, value := range values {
		row[column] = valueFromProto(value)
	}
	return row
}

func valueFromProto(value *pb.Value) any {
	switch kind := value.GetKind().(type) {
	case *pb.Value_BoolValue:
		return kind.BoolValue
	case *pb.Value_Int64Value:
		return kind.Int64Value
	case *pb.Value_DoubleValue:
		return kind.DoubleValue
	case *pb.Value_StringValue:
		return kind.StringValue
	case *pb.Value_BytesValue:
		return kind.BytesValue
	case *pb.Value_TimestampValue:
		return kind.TimestampValue.AsTime()
	case *pb.Value_DecimalValue:
		return Decimal(kind.DecimalValue)
	default:
		return nil
	}
}
