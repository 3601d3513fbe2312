package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// casesOnATerminal are the cases of the protocol stream, of pipes and blocking, of life and
// death and of liveness, which run on pipes by themselves and in TestOnATerminal again. Those
// of signals and process groups run everywhere by themselves.
var casesOnATerminal = []func(*testing.T){
	TestCase01_APrintInTheHandlerIsQuoted,
	TestCase01_RawPrintsThatHarmNothing,
	TestCase01_04_SDKPrintsAreLogLines,
	TestCase02_APathIsNoLength,
	TestCase03_TextInARightFrame,
	TestCase05_AnySplitOfFrames,
	TestCase06_HalfAFrameThenExit0,
	TestCase07_SizesCrossBothWays,
	TestCase08_OverTheLimitIn,
	TestCase08_OverTheLimitOut,
	TestCase08_OverTheLimitOutSDK,
	TestCase09_ATruncatedMap,
	TestCase09_AFailedBatchComesAgainToTheSameProcess,
	TestCase09_TheNextProcessWorks,
	TestCase10_JSON,
	TestCase11_TwoThreadsWithoutALock,
	TestCase12_AnAckForABatchNeverSent,
	TestCase12_AnEmitToNoOutlet,
	TestCase12_AnswersAfterTheAck,
	TestCase13_TheTenthBatchIsAVisibleStall,
	TestCase14_StderrFull,
	TestCase15_BothSidesBlocked,
	TestCase16_StopsReading,
	TestCase16_AStopWhileItDoesNotRead,
	TestCase17_EmitsWithoutLimitWhileTheBrokerIsPaused,
	TestCase18_AStopOvertakesBatches,
	TestCase19_NoAnswerYet,
	TestCase20_InputInTheHandler,
	TestCase21_AGrandchildHoldsThePipes,
	TestCase21_AGrandchildHoldsThePipesAtAStop,
	TestCase22_AFailureShowsItsPlaceInTheCode,
	TestCase22_TheCauseOfADeath,
	TestCase23_TheLastLineWithoutANewline,
	TestCase24_ProgramsThatCannotBeRun,
	TestCase24_ProgramDeletedBetweenRestarts,
	TestCase25_Arguments,
	TestCase26_TheDelayGrows,
	TestCase27_ExitOnFailure,
	TestCase28_ASlowStart,
	TestCase29_NeverAnswers,
	TestCase30_Versions,
	TestCase31_AHungBatchIsKilledAndRedelivered,
	TestCase31_AHungBatchIsAVisibleStall,
	TestCase31_AStoppedProcessIsUnreachable,
	TestCase32_AProcessThatIgnoresEverything,
	TestCase33_BusyIsNotTakenForHung,
	TestCase34_PingsAreNoProgress,
}

// onATerminal is the test that runs them again.
const onATerminal = "TestOnATerminal"

// The cases hold on a terminal as on pipes: there stderr and the keyboard are one file, lines
// are drawn above a live line, Ctrl-C is a key, and the process is a background group of the
// session.
func TestOnATerminal(t *testing.T) {
	t.Parallel()
	for _, test := range casesOnATerminal {
		t.Run(nameOf(test), test)
	}
}

// stageOfCases is where the cases of a test run.
func stageOfCases(t *testing.T) stage {
	if strings.HasPrefix(t.Name(), onATerminal+"/") {
		return newTerminal(t)
	}
	return nil
}

func nameOf(test func(*testing.T)) string {
	name := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

// Every case up to 34 is in the list, and every test of one: what is added here without it
// would run on pipes alone.
func TestEveryCaseRunsOnATerminal(t *testing.T) {
	listed, cases := map[string]bool{}, map[string]bool{}
	numbers := regexp.MustCompile(`[0-9]{2}`)
	for _, test := range casesOnATerminal {
		name := nameOf(test)
		listed[name] = true
		for _, number := range numbers.FindAllString(name, -1) {
			cases[number] = true
		}
	}
	for number := 1; number <= 34; number++ {
		if !cases[fmt.Sprintf("%02d", number)] {
			t.Errorf("no test of case %d is in the list", number)
		}
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (TestCase(?:[012][0-9]|3[0-4])_\w+)`).FindAllSubmatch(text, -1) {
			if name := string(m[1]); !listed[name] {
				t.Errorf("%s: %s is not in the list", file, name)
			}
		}
	}
}
