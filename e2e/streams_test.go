package e2e

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
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

// TestStreams sends through a limited route what a middleware that wraps the response, or reads the body, would hold up. All of
// it twice, since Sluice has another way for a connection that it has met before.
func TestStreams(t *testing.T) {
	s := start(t, setup{dynamic: "e2e/testdata/streams.yml", backend: streams()})
	for name, met := range map[string]bool{"new connection": false, "known connection": true} {
		t.Run(name, func(t *testing.T) {
			t.Run("websocket", func(t *testing.T) { testWebsocket(t, s, s.client(t, met)) })
			t.Run("server-sent events", func(t *testing.T) { testEvents(t, s, s.client(t, met)) })
			t.Run("h2c both ways at once", func(t *testing.T) { testHTTP2(t, s, s.client(t, met, http2)) })
			t.Run("HEAD", func(t *testing.T) { testHead(t, s, s.client(t, met)) })
			t.Run("103 early hints", func(t *testing.T) { testEarlyHints(t, s, s.client(t, met)) })
			t.Run("100-continue, allowed", func(t *testing.T) { testContinue(t, s, s.client(t, met, patient)) })
			t.Run("100-continue, refused", func(t *testing.T) { testContinueRefused(t, s, s.client(t, met, patient)) })
		})
	}
}

// client is a client with connections of its own; if it shall be met, it has a first request behind it.
func (s *stage) client(t *testing.T, met bool, options ...func(*http.Transport)) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(true)
	for _, option := range options {
		option(transport)
	}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	if met {
		do(t, client, request(t, http.MethodGet, s.web+"/health", nil))
	}
	return client
}

// http2 has a client speak HTTP/2, unencrypted.
func http2(transport *http.Transport) {
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetUnencryptedHTTP2(true)
}

// patient has a client wait for leave to send a body. It would send unasked after this time, when the test is long over.
func patient(transport *http.Transport) { transport.ExpectContinueTimeout = time.Minute }

// request gives up soon enough for a test to say what it waited for.
func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	require.NoError(t, err)
	return request
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

func testWebsocket(t *testing.T, s *stage, client *http.Client) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	connection, response, err := websocket.Dial(ctx, s.web+"/websocket", &websocket.DialOptions{HTTPClient: client})
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

func testEvents(t *testing.T, s *stage, client *http.Client) {
	response, err := client.Do(request(t, http.MethodGet, s.web+"/events?count=7", nil))
	require.NoError(t, err)
	defer response.Body.Close()
	requireCounted(t, response.Header)

	var arrivals []time.Time
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data:") {
			arrivals = append(arrivals, time.Now())
		}
	}
	require.Len(t, arrivals, 7)
	// They are sent over 1.2 s. Held back, they would arrive together.
	require.Greater(t, arrivals[6].Sub(arrivals[0]), 800*time.Millisecond)
	require.Greater(t, arrivals[6].Sub(arrivals[3]), 300*time.Millisecond)
}

// testHTTP2 asks and answers on one stream, which is what gRPC does.
func testHTTP2(t *testing.T, s *stage, client *http.Client) {
	questions, ask := io.Pipe()
	defer ask.Close()
	go io.WriteString(ask, "one\n") // the response begins after the first question only
	response, err := client.Do(request(t, http.MethodPost, s.web+"/http2/chat", questions))
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

func testHead(t *testing.T, s *stage, client *http.Client) {
	got := do(t, client, request(t, http.MethodGet, s.web+"/data", nil))
	head := do(t, client, request(t, http.MethodHead, s.web+"/data", nil))
	require.Equal(t, http.StatusOK, head.status)
	require.Equal(t, got.header.Get("Content-Length"), head.header.Get("Content-Length"))
	require.NotEmpty(t, head.header.Get("Content-Length"))
	requireCounted(t, head.header)

	do(t, client, request(t, http.MethodHead, s.web+"/once/head", nil))
	refused := do(t, client, request(t, http.MethodHead, s.web+"/once/head", nil))
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	require.Empty(t, refused.body)
}

// testEarlyHints looks for the rate-limit fields on the hint itself: Traefik's proxy forgets every field that was set before
// it, those of any middleware, when it has passed on a 1xx.
func testEarlyHints(t *testing.T, s *stage, client *http.Client) {
	var hints []string
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
		require.Equal(t, http.StatusEarlyHints, code)
		requireCounted(t, http.Header(header))
		hints = append(hints, header.Get("Link"))
		return nil
	}}
	hinted := request(t, http.MethodGet, s.web+"/hints", nil)
	response := do(t, client, hinted.WithContext(httptrace.WithClientTrace(hinted.Context(), trace)))
	require.Equal(t, []string{"</style.css>; rel=preload; as=style"}, hints)
	require.Equal(t, http.StatusOK, response.status)
	require.Equal(t, "page", response.body)
}

func testContinue(t *testing.T, s *stage, client *http.Client) {
	continued, response := expectContinue(t, client, s.web+"/echo")
	require.True(t, continued, "the client was not told to go on")
	require.Equal(t, http.StatusOK, response.status)
	require.Contains(t, response.body, `"length":1000000`)
	require.Contains(t, response.body, fmt.Sprintf(`"sha256":"%x"`, sha256.Sum256([]byte(million))))
}

// testContinueRefused shows what the handshake is for: a body that is refused is not even sent.
func testContinueRefused(t *testing.T, s *stage, client *http.Client) {
	s.get(t, "/once/continue")
	continued, response := expectContinue(t, client, s.web+"/once/continue")
	require.False(t, continued, "the client was told to go on")
	require.Equal(t, http.StatusTooManyRequests, response.status)
}

// million is a body.
var million = strings.Repeat("x", 1_000_000)

// expectContinue offers a body and waits for leave to send it.
func expectContinue(t *testing.T, client *http.Client, url string) (continued bool, response answer) {
	t.Helper()
	trace := &httptrace.ClientTrace{Got100Continue: func() { continued = true }}
	offer := request(t, http.MethodPost, url, strings.NewReader(million))
	offer.Header.Set("Expect", "100-continue")
	response = do(t, client, offer.WithContext(httptrace.WithClientTrace(offer.Context(), trace)))
	return continued, response
}

// requireCounted is the proof that the response came by way of a limit.
func requireCounted(t *testing.T, header http.Header) {
	t.Helper()
	require.NotEmpty(t, header.Get("X-RateLimit-Limit"))
	require.NotEmpty(t, header.Get("X-RateLimit-Remaining"))
	require.NotEmpty(t, header.Get("X-RateLimit-Reset"))
}
