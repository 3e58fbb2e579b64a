package e2e

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/sluice-ratelimit/sluice/tools/demo/backend"
)

// TestStreams sends through a limited route what a middleware that wraps the response, or reads the body, would hold up.
func TestStreams(t *testing.T) {
	s := start(t, setup{dynamic: "e2e/testdata/streams.yml", backend: streams()})
	t.Run("websocket", func(t *testing.T) { testWebsocket(t, s) })
	t.Run("server-sent events", func(t *testing.T) { testEvents(t, s) })
	t.Run("h2c both ways at once", func(t *testing.T) { testHTTP2(t, s) })
	t.Run("HEAD", func(t *testing.T) { testHead(t, s) })
	t.Run("103 early hints", func(t *testing.T) { testEarlyHints(t, s) })
	t.Run("100-continue, allowed", func(t *testing.T) { testContinue(t, s) })
	t.Run("100-continue, refused", func(t *testing.T) { testContinueRefused(t, s) })
}

// streams is the demo's backend with three more endpoints.
func streams() http.Handler {
	routes := http.NewServeMux()
	routes.Handle("/", backend.New(io.Discard))
	routes.HandleFunc("/websocket", func(w http.ResponseWriter, r *http.Request) {
		connection, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer connection.CloseNow()
		for {
			kind, message, err := connection.Read(r.Context())
			if err != nil {
				return
			}
			connection.Write(r.Context(), kind, append([]byte("echo "), message...))
		}
	})
	routes.HandleFunc("/http2/chat", func(w http.ResponseWriter, r *http.Request) {
		stream := http.NewResponseController(w)
		for lines := bufio.NewScanner(r.Body); lines.Scan(); stream.Flush() {
			io.WriteString(w, r.Proto+" echo "+lines.Text()+"\n")
		}
	})
	routes.HandleFunc("/hints", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload; as=style")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		io.WriteString(w, "page")
	})
	return routes
}

func testWebsocket(t *testing.T, s *stage) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	connection, response, err := websocket.Dial(ctx, s.web+"/websocket", nil)
	require.NoError(t, err)
	defer connection.CloseNow()
	requireCounted(t, response.Header)

	for _, message := range []string{"one", "two", "three"} { // each answer before the next question
		require.NoError(t, connection.Write(ctx, websocket.MessageText, []byte(message)))
		_, answer, err := connection.Read(ctx)
		require.NoError(t, err)
		require.Equal(t, "echo "+message, string(answer))
	}
	require.NoError(t, connection.Close(websocket.StatusNormalClosure, ""))
}

func testEvents(t *testing.T, s *stage) {
	response, err := http.Get(s.web + "/events?count=10")
	require.NoError(t, err)
	defer response.Body.Close()
	requireCounted(t, response.Header)

	var arrivals []time.Time
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data:") {
			arrivals = append(arrivals, time.Now())
		}
	}
	require.Len(t, arrivals, 10)
	// They are sent over 1.8 s. Held back, they would arrive together.
	require.Greater(t, arrivals[9].Sub(arrivals[0]), 1200*time.Millisecond)
	require.Greater(t, arrivals[9].Sub(arrivals[4]), 600*time.Millisecond)
}

// testHTTP2 asks and answers on one stream, which is what gRPC does.
func testHTTP2(t *testing.T, s *stage) {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()

	questions, ask := io.Pipe()
	defer ask.Close()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.web+"/http2/chat", questions)
	require.NoError(t, err)
	go io.WriteString(ask, "one\n") // the response begins after the first question only
	response, err := transport.RoundTrip(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, "HTTP/2.0", response.Proto)
	requireCounted(t, response.Header)

	answers := bufio.NewReader(response.Body)
	for _, expected := range []string{"one", "two", "three"} {
		if expected != "one" {
			_, err := io.WriteString(ask, expected+"\n")
			require.NoError(t, err)
		}
		answer, err := answers.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "HTTP/2.0 echo "+expected+"\n", answer)
	}
}

func testHead(t *testing.T, s *stage) {
	got, head := s.get(t, "/data"), s.send(t, http.MethodHead, "/data", "")
	require.Equal(t, http.StatusOK, head.status)
	require.Equal(t, got.header.Get("Content-Length"), head.header.Get("Content-Length"))
	require.NotEmpty(t, head.header.Get("Content-Length"))
	requireCounted(t, head.header)

	s.send(t, http.MethodHead, "/once/head", "")
	refused := s.send(t, http.MethodHead, "/once/head", "")
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	require.Empty(t, refused.body)
}

// testEarlyHints looks for the rate-limit fields on the hint itself: Traefik's proxy forgets every field that was set before
// it, those of any middleware, when it has passed on a 1xx.
func testEarlyHints(t *testing.T, s *stage) {
	var hints []string
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
		require.Equal(t, http.StatusEarlyHints, code)
		requireCounted(t, http.Header(header))
		hints = append(hints, header.Get("Link"))
		return nil
	}}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, s.web+"/hints", nil)
	require.NoError(t, err)
	response := do(t, http.DefaultClient, request)
	require.Equal(t, []string{"</style.css>; rel=preload; as=style"}, hints)
	require.Equal(t, http.StatusOK, response.status)
	require.Equal(t, "page", response.body)
}

func testContinue(t *testing.T, s *stage) {
	continued, response := expectContinue(t, s.web+"/echo")
	require.True(t, continued, "the client was not told to go on")
	require.Equal(t, http.StatusOK, response.status)
	require.Contains(t, response.body, `"length":1000000`)
}

// testContinueRefused shows what the handshake is for: a body that is refused is not even sent.
func testContinueRefused(t *testing.T, s *stage) {
	s.get(t, "/once/continue")
	continued, response := expectContinue(t, s.web+"/once/continue")
	require.False(t, continued, "the client was told to go on")
	require.Equal(t, http.StatusTooManyRequests, response.status)
}

// expectContinue offers a body of a million bytes and waits for leave to send it.
func expectContinue(t *testing.T, url string) (continued bool, response answer) {
	t.Helper()
	// The client would send unasked after this time; the test is over long before.
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	trace := &httptrace.ClientTrace{Got100Continue: func() { continued = true }}
	body := strings.NewReader(strings.Repeat("x", 1_000_000))
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodPost, url, body)
	require.NoError(t, err)
	request.Header.Set("Expect", "100-continue")
	response = do(t, client, request)
	return continued, response
}

// requireCounted is the proof that the response came by way of a limit.
func requireCounted(t *testing.T, header http.Header) {
	t.Helper()
	require.NotEmpty(t, header.Get("X-RateLimit-Limit"))
	require.NotEmpty(t, header.Get("X-RateLimit-Remaining"))
	require.NotEmpty(t, header.Get("X-RateLimit-Reset"))
}
