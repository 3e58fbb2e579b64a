package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestGRPCService has a real gRPC client and a real gRPC server on the two sides of the example.
func TestGRPCService(t *testing.T) {
	t.Parallel()
	s := start(t, setup{dynamic: "examples/grpc-service/dynamic.yml", backend: grpcService()})

	t.Run("a refusal is RESOURCE_EXHAUSTED", func(t *testing.T) {
		client := dialGRPC(t, s, "127.0.0.2")
		var header metadata.MD
		require.NoError(t, say(client, "1", grpc.Header(&header)))
		require.Equal(t, []string{"5"}, header.Get("x-ratelimit-limit"))
		err := sayUntilRefused(t, client)
		require.Equal(t, codes.ResourceExhausted, grpcstatus.Code(err), "%v", err)
		require.Equal(t, "Too many requests. Try again in 1 s.", grpcstatus.Convert(err).Message())
	})

	t.Run("which says when to come back", func(t *testing.T) {
		client := dialGRPC(t, s, "127.0.0.3")
		var trailer metadata.MD
		require.Error(t, sayUntilRefused(t, client, grpc.Trailer(&trailer)))
		require.Equal(t, []string{"1000"}, trailer.Get("grpc-retry-pushback-ms"))
	})

	t.Run("and a client that retries does", func(t *testing.T) {
		client := dialGRPC(t, s, "127.0.0.4", grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {
			"maxAttempts": 5, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
			"retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`))
		for i := range 7 { // of which two had to wait
			require.NoError(t, say(client, fmt.Sprint(i)))
		}
	})

	t.Run("a stream counts once and flows both ways", func(t *testing.T) {
		client := dialGRPC(t, s, "127.0.0.5")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		stream, err := client.NewStream(ctx, &echoService.Streams[0], "/examples.Echo/Chat")
		require.NoError(t, err)
		for i := range 20 { // each answer before the next question
			question, answer := wrapperspb.String(fmt.Sprint("message ", i)), new(wrapperspb.StringValue)
			require.NoError(t, stream.SendMsg(question))
			require.NoError(t, stream.RecvMsg(answer))
			require.Equal(t, question.Value, answer.Value)
		}
		header, err := stream.Header()
		require.NoError(t, err)
		require.Equal(t, []string{"2"}, header.Get("x-ratelimit-remaining"))
		require.NoError(t, stream.CloseSend())
		require.ErrorIs(t, stream.RecvMsg(new(wrapperspb.StringValue)), io.EOF)
	})

	t.Run("health checks are exempt", func(t *testing.T) {
		client := dialGRPC(t, s, "127.0.0.2")
		for range 10 {
			answer, err := grpc_health_v1.NewHealthClient(client).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			require.NoError(t, err)
			require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, answer.Status)
		}
	})

	t.Run("grpc-web is refused in HTTP", func(t *testing.T) {
		for _, kind := range []string{"application/grpc-web", "application/grpc-web+proto", "application/grpc-web-text"} {
			var got answer
			waitFor(t, "a refusal", func() bool {
				got = s.send(t, http.MethodPost, "/examples.Echo/Say", "", "Content-Type", kind)
				return got.header.Get("Retry-After") != ""
			})
			require.Equal(t, http.StatusTooManyRequests, got.status, kind)
			require.Empty(t, got.header.Values("Grpc-Status"))
		}
	})

	t.Run("unless it was made gRPC before", func(t *testing.T) {
		s.edit(t,
			"  middlewares:\n", "  middlewares:\n    web: {grpcWeb: {allowOrigins: [\"*\"]}}\n",
			"middlewares: [calls]", "middlewares: [web, calls]")
		waitFor(t, "a refusal", func() bool {
			got := s.send(t, http.MethodPost, "/examples.Echo/Say", "\x00\x00\x00\x00\x00", "Content-Type", "application/grpc-web+proto")
			require.Equal(t, http.StatusOK, got.status)
			return got.header.Get("Grpc-Status") == "8"
		})
	})
}

// say makes a call without a stream.
func say(client *grpc.ClientConn, text string, options ...grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answer := new(wrapperspb.StringValue)
	if err := client.Invoke(ctx, "/examples.Echo/Say", wrapperspb.String(text), answer, options...); err != nil {
		return err
	}
	if answer.Value != text {
		return fmt.Errorf("said %q, heard %q", text, answer.Value)
	}
	return nil
}

func sayUntilRefused(t *testing.T, client *grpc.ClientConn, options ...grpc.CallOption) error {
	t.Helper()
	for range 50 {
		if err := say(client, "once more", options...); err != nil {
			return err
		}
	}
	require.Fail(t, "nothing was refused")
	return nil
}

// dialGRPC connects from a loopback address of the caller's own.
func dialGRPC(t *testing.T, s *stage, from string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(s.web, "http://"), append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}))...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// grpcService has the standard health service, and one that sends back what it is sent.
func grpcService() http.Handler {
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	server.RegisterService(&echoService, nil)
	return server
}

// echoService is what a compiler would make of
//
//	service Echo {
//	  rpc Say(google.protobuf.StringValue) returns (google.protobuf.StringValue);
//	  rpc Chat(stream google.protobuf.StringValue) returns (stream google.protobuf.StringValue);
//	}
var echoService = grpc.ServiceDesc{
	ServiceName: "examples.Echo",
	Methods: []grpc.MethodDesc{{
		MethodName: "Say",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			message := new(wrapperspb.StringValue)
			return message, decode(message)
		},
	}},
	Streams: []grpc.StreamDesc{{
		StreamName:    "Chat",
		ServerStreams: true,
		ClientStreams: true,
		Handler: func(_ any, stream grpc.ServerStream) error {
			for {
				message := new(wrapperspb.StringValue)
				if err := stream.RecvMsg(message); err != nil {
					if errors.Is(err, io.EOF) {
						return nil
					}
					return err
				}
				if err := stream.SendMsg(message); err != nil {
					return err
				}
			}
		},
	}},
}
