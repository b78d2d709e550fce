package server

import (
	"context"
	"errors"

	"github.com/go-logr/zapr"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// Isthmus and Linkerd's destination controller both use traceService as the service name in traces.
const traceService = "linkerd-destination"

// For every gRPC call, tracing sends a span to an OpenTelemetry collector. If no collector is
// configured, gRPC calls do not run any OpenTelemetry code.
type tracing struct {
	collector string
	provider  *trace.TracerProvider
	log       *zap.Logger
}

// newTracing creates the part of a replica that sends spans to a collector. If the address of the
// collector is empty, newTracing returns nil. Spans are dropped until the run method is called.
func newTracing(collector string, log *zap.Logger) *tracing {
	if collector == "" {
		return nil
	}
	return &tracing{collector, trace.NewTracerProvider(
		trace.WithSampler(trace.AlwaysSample()),
		trace.WithResource(resource.NewSchemaless(attribute.String("service.name", traceService))),
	), log}
}

func (t *tracing) options() []grpc.ServerOption {
	if t == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(t.provider),
		otelgrpc.WithMeterProvider(noop.NewMeterProvider()),
		otelgrpc.WithPropagators(propagation.TraceContext{}),
	))}
}

// The run method sends spans until ctx is done, and then spends at most lastLimit sending the
// remaining spans. If the collector cannot be used, the method logs a warning and drops all spans,
// because a broken collector must not stop the replica.
func (t *tracing) run(ctx context.Context) error {
	t.bridgeLog()
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(t.collector), otlptracegrpc.WithInsecure())
	if err != nil {
		t.log.Warn("tracing is off because the value of --trace-collector cannot be used",
			zap.String("collector", t.collector), zap.Error(err))
		<-ctx.Done()
		return nil
	}
	t.provider.RegisterSpanProcessor(trace.NewBatchSpanProcessor(exporter))
	t.log.Info("sending traces to a collector", zap.String("collector", t.collector))
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLimit)
	defer cancel()
	// If the provider's Shutdown times out, the exporter's Shutdown cancels pending requests.
	if err := errors.Join(t.provider.Shutdown(last), exporter.Shutdown(last)); err != nil {
		t.log.Warn("the last traces are lost", zap.Error(err))
	}
	return nil
}

// bridgeLog routes all OpenTelemetry log messages and errors in this process to Isthmus's logger.
func (t *tracing) bridgeLog() {
	log := withOwnLimit(t.log).Named("opentelemetry")
	otel.SetLogger(zapr.NewLogger(log))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are lost", zap.Error(err)) }))
}
