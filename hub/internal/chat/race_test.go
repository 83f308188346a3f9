//go:build race

package chat_test

// poolLoss is how much more a test may allocate, because pools drop elements with the race
// detector.
const poolLoss = 6
