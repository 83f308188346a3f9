package secret_test

import "testing"

func BenchmarkSeal(b *testing.B) {
	r, plain := ring(b, raw(1)), make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		r.Seal(plain, place)
	}
}

func BenchmarkOpen(b *testing.B) {
	r := ring(b, raw(1))
	sealed := r.Seal(make([]byte, 100), place)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = r.Open(sealed, place)
	}
}
