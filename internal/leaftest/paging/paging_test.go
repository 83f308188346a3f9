package paging_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/leaf/paging"
)

func TestParameters(t *testing.T) {
	for _, row := range []struct {
		text   string
		number uint64
		size   int
	}{
		{"", 1, 20},
		{"1", 1, 1},
		{"007", 7, 7},
		{"100", 100, 100},
		{"101", 101, 100},
		{"18446744073709551615", math.MaxUint64, 100},
		{"99999999999999999999999999", math.MaxUint64, 100},
	} {
		number, ok := paging.Number(row.text)
		require.True(t, ok, row.text)
		require.Equal(t, row.number, number, row.text)
		size, ok := paging.Size(row.text)
		require.True(t, ok, row.text)
		require.Equal(t, row.size, size, row.text)
	}
	for _, text := range []string{"0", "000", "-1", "+1", "1.0", "1e3", "0x10", "one", " 1", "1 ", "1_000", "١"} {
		_, ok := paging.Number(text)
		require.False(t, ok, text)
		_, ok = paging.Size(text)
		require.False(t, ok, text)
	}
}

func TestOffset(t *testing.T) {
	require.EqualValues(t, 0, paging.Offset(1, 20))
	require.EqualValues(t, 40, paging.Offset(3, 20))
	require.Equal(t, uint64(math.MaxUint64), paging.Offset(math.MaxUint64, 100))
	require.Equal(t, uint64(math.MaxUint64), paging.Offset(4611686018427387905, 8), "no overflow to a small number")
}
