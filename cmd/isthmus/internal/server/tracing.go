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

// traceService is the name that Linkerd's destination controller has in traces.
const traceService = "linkerd-destination"

// tracing sends a span for every call to an OpenTelemetry collector. Without a
// collector it is nil, and calls pass no code of OpenTelemetry.
type tracing struct {
	collector string
	provider  *trace.TracerProvider
	log       *zap.Logger
}

// newTracing returns nil if there is no collector. It starts nothing: spans are
// dropped until run.
func newTracing(collector string, log *zap.Logger) *tracing {
	if collector == "" {
		return nil
	}
	return &tracing{collector, trace.NewTracerProvider(
		trace.WithSampler(trace.AlwaysSample()),
		trace.WithResource(resource.NewSchemaless(attribute.String("service.name", traceService))),
	), log}
}

// options returns the options of a gRPC server whose calls are traced.
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

// run sends spans until ctx ends, and then those that are left, within lastLimit.
// If the collector can't be used, it logs that and drops the spans: that must not
// end the gateway.
func (t *tracing) run(ctx context.Context) error {
	t.bridgeLog()
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(t.collector), otlptracegrpc.WithInsecure())
	if err != nil {
		t.log.Warn("no traces: --trace-collector can't be used", zap.String("collector", t.collector), zap.Error(err))
		<-ctx.Done()
		return nil
	}
	t.provider.RegisterSpanProcessor(trace.NewBatchSpanProcessor(exporter))
	t.log.Info("traces go to a collector", zap.String("collector", t.collector))
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLimit)
	defer cancel()
	// When the provider gives up, Shutdown of the exporter ends its requests.
	if err := errors.Join(t.provider.Shutdown(last), exporter.Shutdown(last)); err != nil {
		t.log.Warn("the last traces are lost", zap.Error(err))
	}
	return nil
}

// bridgeLog sends OpenTelemetry's log to the gateway's. As with klog, its logger
// belongs to the process.
func (t *tracing) bridgeLog() {
	log := withOwnLimit(t.log).Named("opentelemetry")
	otel.SetLogger(zapr.NewLogger(log))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are lost", zap.Error(err)) }))
}
