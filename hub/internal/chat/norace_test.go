//go:build !race

package chat_test

const poolLoss = 1
