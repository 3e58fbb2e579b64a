package sluice

import (
	"bufio"
	"fmt"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// redisServer is a real server of the test's own.
type redisServer struct {
	address string
	process *exec.Cmd
}

// freePort is a port of 127.0.0.1 that nobody listens on.
func freePort(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}

// startRedis starts a server with some of redis.conf's options, and stops it when the test ends.
func startRedis(t testing.TB, options ...string) *redisServer {
	t.Helper()
	return startRedisAt(t, freePort(t), options...)
}

func startRedisAt(t testing.TB, port string, options ...string) *redisServer {
	t.Helper()
	if testing.Short() {
		t.Skip("-short leaves out what needs a real redis-server")
	}
	binary, err := exec.LookPath("redis-server")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal("redis-server is missing, and CI is to test everything")
	}
	if err != nil {
		t.Skip("SKIPPED FOR LACK OF redis-server (Debian has it in the package of that name): nothing here was tested against a real server")
	}
	arguments := append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir()}, options...)
	r := &redisServer{address: "127.0.0.1:" + port, process: exec.Command(binary, arguments...)}
	output, err := r.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopRedis(r) })
	ready := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "Ready to accept connections") {
				ready <- true
			}
		}
		ready <- false
	}()
	if !<-ready {
		t.Fatal("redis-server did not start")
	}
	return r
}

// stopRedis kills a server, as a crash would.
func stopRedis(r *redisServer) {
	if r.process.ProcessState == nil {
		_ = r.process.Process.Kill()
		_ = r.process.Wait()
	}
}

// tell runs one command on a connection of its own, and returns what was answered.
func tell(t testing.TB, r *redisServer, words ...string) []element {
	t.Helper()
	c, err := dial(r.address, nil, in(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.net.Close() }()
	return do(t, c, words...)
}

func do(t testing.TB, c *respConn, words ...string) []element {
	t.Helper()
	if err := ask(c, command(words...), 1, in(5*time.Second)); err != nil {
		t.Fatal(err)
	}
	return c.replies
}

// epoch2100 is where the property test's time begins, in microseconds: far enough ahead for no key to expire by
// itself, and near enough for twice the longest capacity to stay below 2^53.
const epoch2100 = 4_102_444_800_000_000

// timeGiven makes the last argument of a script its time.
const timeGiven = "local now = tonumber(ARGV[#ARGV])\n"

// atTime makes a call of strictScript one of the script that has its time given.
func atTime(call, script string, keys int, now int64) string {
	call = strings.Replace(call, strictScript.hash, script, 1)
	_, words, _ := strings.Cut(call, "\r\n")
	return "*" + strconv.Itoa(4+keys*(1+policyArguments)) + "\r\n" + words + arguments(strconv.FormatInt(now, 10))
}

// Random requests at random times under random policies: the script decides as bucket.go and window.go do, leaves the
// same counters, lets them expire when they mean nothing, and whether they are forgotten then makes no difference.
func TestScriptAgreesWithGo(t *testing.T) {
	r := startRedis(t)
	c, err := dial(r.address, nil, in(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.net.Close() }()
	strict := do(t, c, "SCRIPT", "LOAD", timeGiven+strictText)[0].text

	runs, requests := 400, 80
	if testing.Short() {
		runs = 40
	}
	passed, refused, forgotten := 0, 0, 0
	for seed := 0; seed < runs; seed++ {
		random := rand.New(rand.NewSource(int64(seed)))
		do(t, c, "FLUSHALL")
		s := &sharing{prefixes: map[*limit]string{}, numbers: map[*policy]string{}}
		var limits []*limit
		for i := 0; i <= random.Intn(4); i++ {
			l := &limit{name: fmt.Sprint("l", i), dryRun: random.Intn(8) == 0, numbers: &numbers{policy: randomSharable(random)}}
			s.prefixes[l] = "p:{m}:" + l.name + ":"
			s.numbers[l.numbers.policy] = policyNumbers(l.numbers.policy, l.numbers.policy.token, dryOption(l))
			limits = append(limits, l)
		}
		model := map[string]*counter{}
		now := int64(epoch2100 + random.Intn(1_000_000_000))
		for n := 0; n < requests; n++ {
			now += randomStep(random, limits[random.Intn(len(limits))].numbers.policy)
			if now > 1<<52 {
				break
			}
			var charges []*charge
			for _, l := range limits {
				if random.Intn(6) > 0 {
					cost := int64(1)
					if random.Intn(3) == 0 {
						cost = 1 + random.Int63n(l.numbers.policy.size)
					}
					charges = append(charges, &charge{limit: l, key: strconv.Itoa(random.Intn(2)), cost: cost})
				}
			}
			for _, ch := range charges {
				key := s.prefixes[ch.limit] + ch.key
				if full := do(t, c, "PEXPIRETIME", key)[0].number; full > 0 && now >= full*1000 && random.Intn(2) == 0 {
					do(t, c, "DEL", key)
					forgotten++
				}
			}

			call := strictCall(s, charges)
			if call == "" {
				continue
			}
			if err := ask(c, atTime(call, strict, len(charges), now), 1, in(5*time.Second)); err != nil {
				t.Fatal(err)
			}
			answer := c.replies[0]
			if answer.kind != statusReply {
				t.Fatalf("seed %d, request %d: %v", seed, n, answer)
			}
			words := strings.Split(answer.text, " ")

			// The same in Go, in the manner of chargeAll.
			passes := true
			for _, ch := range charges {
				key := s.prefixes[ch.limit] + ch.key
				if model[key] == nil {
					model[key] = &counter{at: now * 1000, policy: ch.limit.numbers.policy}
				}
				ch.counter = model[key]
				settle(ch.counter, now*1000, 0)
				ch.wait = waitFor(ch.counter, ch.units, now*1000)
				passes = passes && (ch.wait == 0 || ch.limit.dryRun)
			}
			if passes != (words[0] == "1") {
				t.Fatalf("seed %d, request %d: the script says %s, Go %v; %s", seed, n, words[0], passes, describe(charges))
			}
			for i, ch := range charges {
				// The state before the charge, and so all numbers that follow from it.
				found := &counter{policy: ch.policy}
				setState(found, stateNumber(words[1+2*i]), stateNumber(words[2+2*i]), now*1000)
				if found.at != ch.counter.at || found.spent != ch.counter.spent {
					t.Fatalf("seed %d, request %d, limit %d: the script has at %d, spent %d; Go at %d, spent %d; %s",
						seed, n, i, found.at, found.spent, ch.counter.at, ch.counter.spent, describe(charges))
				}
				if passes && ch.wait == 0 {
					take(ch.counter, ch.units)
					full := do(t, c, "PEXPIRETIME", s.prefixes[ch.limit]+ch.key)[0].number
					if want := (now*1000 + waitFull(ch.counter, now*1000) + 999_999) / 1_000_000; full != want {
						t.Fatalf("seed %d, request %d, limit %d: expires at %d, want %d; %s", seed, n, i, full, want, describe(charges))
					}
				}
			}
			if passes {
				passed++
			} else {
				refused++
			}
		}
	}
	t.Logf("%d requests passed, %d were refused, %d counters were forgotten", passed, refused, forgotten)
	if passed < runs || refused < runs || forgotten < runs/10 {
		t.Error("the random requests are too much alike")
	}
}

func describe(charges []*charge) string {
	text := ""
	for _, ch := range charges {
		text += fmt.Sprintf("%+v cost %d; ", *ch.policy, ch.cost)
	}
	return text
}

// randomSharable is any policy that can be shared, each order of magnitude as likely as another.
func randomSharable(random *rand.Rand) *policy {
	for {
		size := upTo(random, maxTokens)
		if random.Intn(2) == 0 {
			size = 1 + random.Int63n(5)
		}
		period := upTo(random, maxPeriod/1000) * 1000
		var p *policy
		switch random.Intn(4) {
		case 0:
			p = newBucket(decimal{upTo(random, 1_000_000_000), 1}, upTo(random, maxPeriod), size, false)
		case 1:
			p = newBucket(decimal{upTo(random, 1_000_000_000), []int64{1, 10, 1_000_000}[random.Intn(3)]}, period, size, true)
		case 2:
			p = newWindow(size, period, false)
		case 3:
			p = newWindow(size, period, true)
		}
		if p != nil && sharable(p) == "" {
			return p
		}
	}
}

// upTo is a number from 1 to most.
func upTo(random *rand.Rand, most int64) int64 {
	bound := int64(1)
	for bound < most && random.Intn(12) > 0 {
		bound *= 2 + random.Int63n(8)
	}
	if bound > most || bound <= 0 {
		bound = most
	}
	return 1 + random.Int63n(bound)
}

// randomStep is microseconds from one request to the next: often none, often about what matters to a policy.
func randomStep(random *rand.Rand, p *policy) int64 {
	about := []int64{0, 0, 1, p.token / 1000, p.period / 1000, p.full / 1000, upTo(random, p.full/1000+2)}[random.Intn(7)]
	if about > 1<<48 {
		about = 1 << 48
	}
	if step := about + random.Int63n(3) - 1; step > 0 {
		return step
	}
	return 0
}

// A counter whose limit has other numbers now keeps the tokens that it owed, as restate has it.
func TestScriptRestates(t *testing.T) {
	r := startRedis(t)
	c, err := dial(r.address, nil, in(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.net.Close() }()
	strict := do(t, c, "SCRIPT", "LOAD", timeGiven+strictText)[0].text
	bucket := func(average, period, burst int64, interval bool) *policy {
		return newBucket(decimal{average, 1}, period, burst, interval)
	}
	for name, test := range map[string]struct{ from, to *policy }{
		"bucket, slower":             {bucket(10, second, 20, false), bucket(3, second, 20, false)},
		"bucket, smaller":            {bucket(10, second, 20, false), bucket(10, second, 5, false)},
		"bucket, by interval":        {bucket(10, second, 20, false), bucket(10, second, 20, true)},
		"bucket, smooth":             {bucket(10, second, 20, true), bucket(7, second, 20, false)},
		"bucket by interval, slower": {bucket(10, second, 20, true), bucket(3, second, 20, true)},
		"window, more":               {newWindow(10, second, false), newWindow(20, second, false)},
		"window, longer":             {newWindow(10, second, false), newWindow(10, 60*second, false)},
		"window, by the clock":       {newWindow(10, second, false), newWindow(10, second, true)},
	} {
		t.Run(name, func(t *testing.T) {
			do(t, c, "FLUSHALL")
			now := int64(epoch2100)
			model := &counter{at: now * 1000, policy: test.from}
			request := func(p *policy, cost int64) []string {
				call := strictScript.heads[1] + arguments("k") + policyNumbers(p, cost*p.token, 0)
				if err := ask(c, atTime(call, strict, 1, now), 1, in(5*time.Second)); err != nil || c.replies[0].kind != statusReply {
					t.Fatal(err, c.replies)
				}
				return strings.Split(c.replies[0].text, " ")
			}
			request(test.from, 8)
			settle(model, now*1000, 0)
			take(model, 8*test.from.token)
			now += 150_000
			words := request(test.to, 1)
			restate(model, test.to, now*1000, 0)
			found := &counter{policy: test.to}
			setState(found, stateNumber(words[1]), stateNumber(words[2]), now*1000)
			// The script gives the surplus that a smaller size forgives only back as far as twice the size.
			if have, want := remaining(found, now*1000), remaining(model, now*1000); have != want {
				t.Errorf("%d tokens are left, want %d", have, want)
			}
			if off := spent(found, now*1000) - spent(model, now*1000); off < 0 && test.to.capacity >= test.from.capacity {
				t.Errorf("%d units less are spent than in Go", -off)
			}
		})
	}
}

// What is stored under a key by others is overwritten, not trusted.
func TestScriptMeetsOtherData(t *testing.T) {
	r := startRedis(t)
	c, err := dial(r.address, nil, in(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.net.Close() }()
	p := newBucket(decimal{1, 1}, second, 5, false)
	for _, command := range [][]string{{"SET", "k", "nonsense"}, {"SET", "k", ""}, {"SET", "k", strings.Repeat("9", 4000)}, {"RPUSH", "k", "x"}, {"SET", "k", "12345678901234567890 0 7 0"}} {
		do(t, c, "DEL", "k")
		do(t, c, command...)
		if err := ask(c, byText(strictScript, strictScript.heads[1]+arguments("k")+policyNumbers(p, p.token, 0)), 1, in(5*time.Second)); err != nil {
			t.Fatal(err)
		}
		if got := c.replies[0]; got.kind != statusReply || !strings.HasPrefix(got.text, "1 ") && command[1] != "k" {
			t.Errorf("%v: %v", command, got)
		}
	}
}
